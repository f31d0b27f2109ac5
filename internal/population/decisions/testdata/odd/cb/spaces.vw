 2:-1:0.5 | age:54 site=north member
 1:0:0.5 | age:31 site=south
