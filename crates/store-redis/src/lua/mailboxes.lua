-- KEYS letters, their keys with their numbers, waiters
-- ARGV id, tag, channel, key, payload, ttl, most letters, most bytes
function actions.put(keys, args)
  local count = redis.call('LLEN', keys[1])
  if count == 0 then
    redis.call('DEL', keys[2])
  end
  local ttl = tonumber(args[6])
  local isnew = not redis.call('HGET', keys[2], 'k' .. args[4])
  if isnew then
    local bytes = tonumber(redis.call('HGET', keys[2], 'bytes') or '0') + #args[4] + #args[5]
    if count >= tonumber(args[7]) then
      return { 'full', 'letters', tonumber(args[7]) }
    elseif bytes > tonumber(args[8]) then
      return { 'full', 'bytes', tonumber(args[8]) }
    end
    redis.call('RPUSH', keys[1], cmsgpack.pack(args[4]) .. args[5])
    redis.call('HSET', keys[2], 'k' .. args[4], count + 1, 'bytes', bytes)
  end
  prolong(keys[1], ttl)
  prolong(keys[2], ttl)
  if isnew then
    wake(keys[3], args[1], args[2], args[3])
  end
  return { isnew and 'new' or 'again' }
end

-- KEYS letters
-- ARGV after
function actions.letters(keys, args)
  local answer = { 'ok' }
  for _, letter in ipairs(redis.call('LRANGE', keys[1], args[1], -1)) do
    local read, key = cmsgpack.unpack_one(letter)
    answer[#answer + 1] = key
    -- -1: nothing is left after the key.
    answer[#answer + 1] = read < 0 and '' or string.sub(letter, read + 1)
  end
  return answer
end

-- KEYS letters, their keys with their numbers
function actions.empty(keys)
  redis.call('DEL', keys[1], keys[2])
  return { 'ok' }
end
