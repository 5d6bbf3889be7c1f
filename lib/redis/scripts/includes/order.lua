-- The order of all enqueues of a uri, which lib/redis/order.ts describes. `<` compares texts by the locale of the server, so
-- bytes are compared one by one.
local function orderOf(text)
  local sent, identity, replays = string.match(text, '^(%d+) (%S*) ?(%d*)$')
  return tonumber(sent) or 0, identity or '', tonumber(replays) or 0
end
local function bytesAfter(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a > b end
  end
  return #one > #other
end
local function isLater(one, other)
  if one == other then return false end
  local sent, identity, replays = orderOf(one)
  local sentBefore, identityBefore, replaysBefore = orderOf(other)
  if identity == identityBefore then return replays > replaysBefore end
  if sent ~= sentBefore then return sent > sentBefore end
  return bytesAfter(identity, identityBefore)
end
