2:-1:0.5 | age:54 site=north member
2:-1 | age:54
