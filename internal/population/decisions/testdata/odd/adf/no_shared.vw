| id=none
0:-1:0.5 | id=sms
