-- `today` is now, in ms by the clock of Redis: a caller with a wrong clock would delete the results of all others.
local clock = redis.call('TIME')
local today = clock[1] * 1000 + math.floor(clock[2] / 1000)
