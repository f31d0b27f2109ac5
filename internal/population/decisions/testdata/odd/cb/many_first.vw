1:0:0.5 3:1:0.2 | age:54 site=north member
