shared | age:54 site=north member
0:0:0.5 | id=none
0:-1:0.5 | id=sms
