shared | age:54 site=north member
| id=none
0:0.5:0.5 | id=sms
