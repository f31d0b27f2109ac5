shared |User age:54 site=north member
|Action article=none
0:-1:0.5 |Action article=sms

