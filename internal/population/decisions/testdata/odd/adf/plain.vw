shared |user age:54 site=north member
|action id=none
0:-1:0.5 |action id=sms
|action id=call

shared |user age:18 site=south member:0
0:0:0.25 |action id=none
|action id=sms
