1.0:0:0.5 | age:54 site=north member
