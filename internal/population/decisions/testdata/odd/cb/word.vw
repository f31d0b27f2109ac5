2:-1:0.5 | age:old site=north member
