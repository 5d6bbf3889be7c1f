-- Reads the first entries of the index of a slot.
--
-- KEYS: index.
-- ARGV[1]: options
--   count
--   results    prefix of results
-- Returns each uri, its expiry, and the bytes of its result.

local options = cjson.decode(ARGV[1])
local found, replies = redis.call('ZRANGE', KEYS[1], 0, options.count - 1, 'WITHSCORES'), {}
for i = 1, #found, 2 do
  local bytes = 0
  for _, field in ipairs({'value', 'exact', 'error'}) do
    local size = redis.pcall('HSTRLEN', options.results .. found[i], field)
    if type(size) == 'number' then bytes = bytes + size end
  end
  replies[#replies + 1] = {found[i], found[i + 1], bytes}
end
return replies
