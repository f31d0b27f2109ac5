

shared | age:54 site=north member
| id=none
0:-1:0.5 | id=sms



shared | age:54 site=north member
0:-1:0.5 | id=sms

