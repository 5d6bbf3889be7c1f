-- The runs that a key counts, and the delivery that was counted last.
local function held(key)
  local text = redis.pcall('GET', key)
  local runs, delivery = string.match(type(text) == 'string' and text or '', '^(%d+) (%d+)$')
  return tonumber(runs or '0'), delivery
end
