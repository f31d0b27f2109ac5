shared | age:54 site=north member
| a
0:-1:0.5 | b
