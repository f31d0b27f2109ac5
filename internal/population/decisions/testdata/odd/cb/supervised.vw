1 | age:54 site=north member
