/**
 * The order of all enqueues of a uri, stored in Redis as `<sent at> <identity>`, followed by ` <replays>` for a record that
 * was replayed from the dead letters. The enqueue that SQS accepted later is later; a tie is decided by the bytes of the
 * identities. An identity is one enqueue, however many messages the retries of a client made of it; only a replay of it
 * is later.
 */
import type { Enqueue } from '../contract/enqueue.ts';

/** Stands for an identity in the order of a cancellation: it sorts after every identity that was sent in the same ms. */
export const CANCELLATION = '~';
/** How many identities Redis lists for a uri. One that seven others followed no longer matters. */
const LISTED_IDENTITIES = 7;

export function serializeOrder({ identity, sentAt, replays }: Enqueue): string {
  return replays === 0 ? `${sentAt} ${identity}` : `${sentAt} ${identity} ${replays}`;
}

/** @returns undefined for text of another form */
export function parseOrder(text: string | null): Enqueue | undefined {
  const [, sentAt, identity = '', replays = 0] = /^(\d+) (\S*) ?(\d*)$/.exec(text ?? '') ?? [];
  return sentAt === undefined ? undefined : { identity, sentAt: Number(sentAt), replays: Number(replays) };
}

export function isLater(one: Enqueue, other: Enqueue): boolean {
  if (one.identity === other.identity) return one.replays > other.replays;
  if (one.sentAt !== other.sentAt) return one.sentAt > other.sentAt;
  // Identities are ASCII, where code units sort as bytes do.
  return one.identity > other.identity;
}

/**
 * The same in Lua, where `<` compares texts by the locale of the server, so bytes are compared one by one. A list of
 * identities is a text separated by spaces; `without` returns it unchanged when the identity is not in it.
 */
export const ORDER = `
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
local function isRetry(one, other)
  local sent, identity, replays = orderOf(one)
  local sentBefore, identityBefore, replaysBefore = orderOf(other)
  return identity == identityBefore and replays == replaysBefore and sent > sentBefore
end
local function has(list, identity)
  return identity ~= '' and string.find(' ' .. list .. ' ', ' ' .. identity .. ' ', 1, true) ~= nil
end
local function without(list, identity)
  if not has(list, identity) then return list end
  local left = {}
  for one in string.gmatch(list, '%S+') do
    if one ~= identity then left[#left + 1] = one end
  end
  return table.concat(left, ' ')
end
local function withFirst(list, identity)
  local all = {identity}
  for one in string.gmatch(without(list, identity), '%S+') do
    if #all < ${LISTED_IDENTITIES} then all[#all + 1] = one end
  end
  return table.concat(all, ' ')
end
local function orderOfCancellation(at, before)
  if before then at = math.max(at, (orderOf(before))) end
  return string.format('%.0f ${CANCELLATION}', at)
end`;
