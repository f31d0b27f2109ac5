2:-1:0.5 | age:54 site=north member
3:0:0.5 | age:54
| age:54
