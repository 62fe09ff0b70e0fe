-- Leases, the list of backends, shared keys: all in one slot.

-- How long the list of backends and the layout are kept without a renewal, in milliseconds.
local REGISTRY = 30 * 24 * 3600 * 1000

local function milliseconds()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- A writer is put on the list, whether it has a lease or not.
-- KEYS list of backends
-- ARGV backend
function actions.enlist(keys, args)
  redis.call('ZADD', keys[1], string.format('%.0f', milliseconds()), args[1])
  redis.call('PEXPIRE', keys[1], REGISTRY)
  return { 'ok' }
end

-- Answers for how long leases have been renewed without a break.
-- KEYS list of backends, lease, layout, watch
-- ARGV backend, draining, ttl
function actions.renew(keys, args)
  redis.call('SET', keys[2], args[2], 'PX', args[3])
  redis.call('PEXPIRE', keys[3], REGISTRY)
  actions.enlist(keys, args)
  local now = milliseconds()
  local since, last = string.match(redis.call('GET', keys[4]) or '', '^(%d+) (%d+)$')
  since, last = tonumber(since), tonumber(last)
  if not last or last > now or now - last > tonumber(args[3]) / 2 then
    since = now
  end
  redis.call('SET', keys[4], string.format('%.0f %.0f', since, now), 'PX', args[3])
  return { 'ok', now - since }
end

-- KEYS lease
function actions.lease(keys)
  return { redis.call('GET', keys[1]) or 'gone' }
end

-- KEYS lease
function actions.release(keys)
  redis.call('DEL', keys[1])
  return { 'ok' }
end

-- KEYS list of backends, what the keys of leases start with
function actions.backends(keys)
  local now = milliseconds()
  local answer = { 'ok' }
  local listed = redis.call('ZRANGE', keys[1], 0, -1, 'WITHSCORES')
  for at = 1, #listed, 2 do
    answer[#answer + 1] = listed[at]
    answer[#answer + 1] = redis.call('GET', keys[2] .. listed[at]) or 'gone'
    answer[#answer + 1] = math.max(now - tonumber(listed[at + 1]), 0)
  end
  return answer
end

-- Takes a backend off the list, if it still has no lease.
-- KEYS list of backends, lease
-- ARGV backend
function actions.forget(keys, args)
  if redis.call('EXISTS', keys[2]) == 0 then
    redis.call('ZREM', keys[1], args[1])
  end
  return { 'ok' }
end

-- Open streams of one owner in one partition. What has expired is taken out of the set.
-- KEYS owner's set, what the keys of records start with
-- ARGV most
function actions.owned(keys, args)
  local answer, most = { 'ok' }, tonumber(args[1])
  for _ = 1, 64 do
    local stale = {}
    answer = { 'ok' }
    for _, id in ipairs(redis.call('SRANDMEMBER', keys[1], most)) do
      local stream = load(keys[2] .. id)
      if stream and stream[SEAL] == '' then
        for _, field in ipairs({ id, stream[EPOCH], stream[TAIL], stream[SESSION], stream[REQUEST] }) do
          answer[#answer + 1] = field
        end
      else
        stale[#stale + 1] = id
      end
    end
    if #stale == 0 then
      break
    end
    redis.call('SREM', keys[1], unpack(stale))
  end
  return answer
end

-- KEYS layout
-- ARGV layout
function actions.layout(keys, args)
  redis.call('SET', keys[1], args[1], 'NX')
  redis.call('PEXPIRE', keys[1], REGISTRY)
  return { redis.call('GET', keys[1]) }
end

-- KEYS shared keys
function actions.shared(keys)
  return redis.call('LRANGE', keys[1], 0, -1)
end

-- KEYS shared keys
-- ARGV how many there were, each of them, each of the new ones
function actions.swap(keys, args)
  local before = redis.call('LRANGE', keys[1], 0, -1)
  local count = tonumber(args[1])
  local same = #before == count
  for at = 1, count do
    same = same and before[at] == args[at + 1]
  end
  if same then
    redis.call('DEL', keys[1])
    for at = count + 2, #args do
      redis.call('RPUSH', keys[1], args[at])
    end
  end
  return redis.call('LRANGE', keys[1], 0, -1)
end
