2:-1:0.5 | age:54 site=north member
2:-1:0.5 1:0:0.5 | age:54
