shared 0:-1:0.5 | age:54 site=north member
| id=none
| id=sms
