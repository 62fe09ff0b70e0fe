-- Who waits for a stream: backends with the second until which they said so.

-- KEYS waiters of some streams of one partition
-- ARGV tag, ttl in seconds
function actions.watch(keys, args)
  local ttl = tonumber(args[2])
  local until_then = string.format('%.0f', seconds() + ttl)
  for _, key in ipairs(keys) do
    redis.call('HSET', key, args[1], until_then)
    prolong(key, ttl * 1000)
  end
  return { 'ok' }
end

-- KEYS waiters of some streams of one partition
-- ARGV tag
function actions.unwatch(keys, args)
  for _, key in ipairs(keys) do
    redis.call('HDEL', key, args[1])
  end
  return { 'ok' }
end

-- KEYS waiters
-- ARGV id, tag, channel
function actions.wake(keys, args)
  wake(keys[1], args[1], args[2], args[3])
  return { 'ok' }
end
