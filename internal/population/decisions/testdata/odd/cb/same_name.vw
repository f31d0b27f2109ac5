2:-1:0.5 |a age:54 |b age:12 site=north member
