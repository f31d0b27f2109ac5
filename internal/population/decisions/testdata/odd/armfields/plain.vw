shared | age:54
|a id=none price:0
0:-1:0.5 |a id=sms price:7.5
