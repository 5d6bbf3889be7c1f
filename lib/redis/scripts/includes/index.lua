-- Lists a uri in the index of results, which lives as long as the last of them.
local function list(index, uri, ttl)
  redis.call('ZADD', index, today + ttl, uri)
  if redis.call('PTTL', index) < tonumber(ttl) then redis.call('PEXPIRE', index, ttl) end
end
