ccb shared |User age:54
ccb action |Action id=none
ccb slot 0:0:0.5 |Slot a
