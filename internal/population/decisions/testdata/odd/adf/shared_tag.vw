shared 'first| age:54 site=north member
| id=none
0:-1:0.5 | id=sms

shared |
| id=none
0:0:0.5 | id=sms
