2:-1:0.5 |a:2 age:54 site=north member
