2:-1:0.5 | age:54 site=north member
4:-1:0.5 | age:54
