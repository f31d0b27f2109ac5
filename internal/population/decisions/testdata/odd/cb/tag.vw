2:-1:0.5 'first| age:54 site=north
1:0:0.25 second|a age:18 site=south member:0
