-- KEYS record, events, owner's set, what it takes to run it again
-- ARGV id, nonce, epoch, owner, standalone, max events, max bytes, open ttl, writer, session, request, incarnation,
--      [what it takes to run it again]
function actions.create(keys, args)
  local stream = load(keys[1])
  if stream then
    -- The same attempt again, after an answer that got lost.
    return { stream[NONCE] == args[2] and 'ok' or 'exists' }
  end
  local ttl = tonumber(args[8])
  redis.call('DEL', keys[2])
  local record = { 1, tonumber(args[3]), 1, args[4], tonumber(args[5]), tonumber(args[6]), tonumber(args[7]),
    0, 0, 0, 0, '', args[9], args[2], args[10], args[11], args[12] }
  redis.call('SET', keys[1], cmsgpack.pack(record), 'PX', ttl)
  if args[13] then
    redis.call('SET', keys[4], args[13], 'PX', ttl)
  end
  if record[STANDALONE] == 0 then
    redis.call('SADD', keys[3], args[1])
    prolong(keys[3], ttl + LONGER)
  end
  return { 'ok' }
end

-- Makes a stream with its only message, which seals it.
-- KEYS record, events
-- ARGV nonce, epoch, owner, keep, writer, length, event
function actions.create_sealed(keys, args)
  local stream = load(keys[1])
  if stream then
    -- The same attempt again, after an answer that got lost.
    return { stream[NONCE] == args[1] and 'ok' or 'exists' }
  end
  local length, keep = tonumber(args[6]), tonumber(args[4])
  redis.call('DEL', keys[2])
  redis.call('RPUSH', keys[2], args[7])
  redis.call('PEXPIRE', keys[2], keep + LONGER)
  local record = { 1, tonumber(args[2]), 1, args[3], 0, 1, length, 1, length, 0, 0, args[2] .. '-1', args[5], args[1], '', '' }
  redis.call('SET', keys[1], cmsgpack.pack(record), 'PX', keep)
  return { 'ok' }
end

-- What has to be refused at a bound of the stream; drops the oldest events of a standalone one to make room.
local function room(stream, events, length, count, droppable)
  local function refusal()
    if count >= stream[MAX_EVENTS] then
      return { 'full', 'events', stream[MAX_EVENTS] }
    elseif stream[BYTES] + length > stream[MAX_BYTES] then
      return { 'full', 'bytes', stream[MAX_BYTES] }
    end
  end
  if stream[STANDALONE] == 1 then
    if droppable and stream[MAX_EVENTS] < 1 then
      return { 'full', 'events', stream[MAX_EVENTS] }
    elseif droppable and length > stream[MAX_BYTES] then
      return { 'full', 'bytes', stream[MAX_BYTES] }
    end
    while count > 0 and refusal() do
      stream[BYTES] = stream[BYTES] - size(redis.call('LPOP', events))
      count = count - 1
    end
  end
  return droppable and refusal() or nil
end

local function push(keys, stream, event, length)
  if redis.call('RPUSH', keys[2], event) == 1 then
    stream[BYTES] = 0
    redis.call('PEXPIRE', keys[2], math.max(redis.call('PTTL', keys[1]), 1) + LONGER)
  end
  stream[TAIL] = stream[TAIL] + 1
  stream[BYTES] = stream[BYTES] + length
end

local function take_over(stream, epoch, offset)
  if epoch > stream[EPOCH] then
    stream[EPOCH] = epoch
    stream[START] = offset
  end
end

-- KEYS record, events, waiters
-- ARGV id, tag, channel, epoch, offset, droppable, length, event
function actions.append(keys, args)
  local stream = load(keys[1])
  if not stream then
    return { 'gone' }
  end
  local epoch, offset, length = tonumber(args[4]), tonumber(args[5]), tonumber(args[7])
  if epoch < stream[EPOCH] then
    return { 'fenced', stream[EPOCH] }
  elseif stream[SEAL] ~= '' then
    return { 'sealed' }
  elseif offset ~= stream[TAIL] + 1 then
    if epoch == stream[EPOCH] and offset >= stream[START] and offset <= stream[TAIL] then
      return { 'again' }
    end
    return { 'order', stream[TAIL] }
  end
  local refused = room(stream, keys[2], length, redis.call('LLEN', keys[2]), args[6] == '1')
  if refused then
    return refused
  end
  take_over(stream, epoch, offset)
  push(keys, stream, args[8], length)
  save(keys[1], stream)
  wake(keys[3], args[1], args[2], args[3])
  return { 'new' }
end

-- KEYS record, events, waiters, what the keys of the owners' sets start with, what it takes to run it again
-- ARGV id, tag, channel, epoch, offset, keep, [length, event]
function actions.seal(keys, args)
  local stream = load(keys[1])
  if not stream then
    return { 'gone' }
  end
  local epoch, offset, keep = tonumber(args[4]), tonumber(args[5]), tonumber(args[6])
  local seal = args[4] .. '-' .. args[5]
  if epoch < stream[EPOCH] then
    return { 'fenced', stream[EPOCH] }
  elseif stream[SEAL] ~= '' then
    return { stream[SEAL] == seal and 'again' or 'sealed' }
  elseif offset ~= stream[TAIL] + 1 then
    return { 'order', stream[TAIL] }
  end
  take_over(stream, epoch, offset)
  if args[8] then
    local length = tonumber(args[7])
    room(stream, keys[2], length, redis.call('LLEN', keys[2]), false)
    push(keys, stream, args[8], length)
  end
  stream[SEAL] = seal
  redis.call('SET', keys[1], cmsgpack.pack(stream), 'PX', keep)
  redis.call('PEXPIRE', keys[2], keep + LONGER)
  redis.call('SREM', keys[4] .. stream[OWNER], args[1])
  redis.call('DEL', keys[5])
  wake(keys[3], args[1], args[2], args[3])
  return { 'new' }
end

-- Gives an open call to another backend, where it can be run again.
-- KEYS record, events, waiters, what the keys of the owners' sets start with, what it takes to run it again
-- ARGV id, tag, channel, epoch, owner, open ttl, writer
function actions.take_over(keys, args)
  local stream = load(keys[1])
  if not stream then
    return { 'gone' }
  end
  local epoch, ttl = tonumber(args[4]), tonumber(args[6])
  if epoch < stream[EPOCH] or (epoch == stream[EPOCH] and args[5] ~= stream[OWNER]) then
    return { 'fenced', stream[EPOCH] }
  elseif stream[SEAL] ~= '' then
    return { 'sealed' }
  end
  local request = redis.call('GET', keys[5])
  if not request then
    return { 'none' }
  end
  take_over(stream, epoch, stream[TAIL] + 1)
  redis.call('SREM', keys[4] .. stream[OWNER], args[1])
  stream[OWNER], stream[WRITER] = args[5], args[7]
  save(keys[1], stream)
  redis.call('SADD', keys[4] .. stream[OWNER], args[1])
  prolong(keys[1], ttl)
  prolong(keys[2], ttl + LONGER)
  prolong(keys[4] .. stream[OWNER], ttl + LONGER)
  prolong(keys[5], ttl)
  wake(keys[3], args[1], args[2], args[3])
  return { 'taken', stream[TAIL], stream[SESSION], stream[REQUEST], request }
end

-- KEYS record, events
-- ARGV after, most events, most bytes
function actions.read(keys, args)
  local stream = load(keys[1])
  if not stream then
    return { 'gone' }
  end
  local after, most, bytes = tonumber(args[1]), math.max(tonumber(args[2]), 1), tonumber(args[3])
  local tail, sealed = stream[TAIL], stream[SEAL] ~= '' and 1 or 0
  if after > tail then
    return { 'lost', tail, sealed, stream[WRITER] }
  end
  local count = redis.call('LLEN', keys[2])
  local dropped = tail - count
  if after < dropped then
    return { 'evicted', dropped + 1 }
  end
  local answer = { 'page', tail, sealed, stream[EPOCH], stream[OWNER], stream[GENERATION],
    stream[INCARNATION] or '0' }
  local at, last = after - dropped, math.min(after - dropped + most, count) - 1
  -- As many at a time as should fit.
  local average = math.max(stream[BYTES] / math.max(count, 1), 1)
  local step = math.min(math.max(math.floor(bytes / average), 1), 256)
  local total = 0
  while at <= last do
    for _, event in ipairs(redis.call('LRANGE', keys[2], at, math.min(at + step - 1, last))) do
      total = total + size(event)
      if total > bytes and #answer > 7 then
        return answer
      end
      answer[#answer + 1] = event
    end
    at = at + step
  end
  return answer
end

-- KEYS record, waiters
-- ARGV id, tag, channel
function actions.attach(keys, args)
  local stream = load(keys[1])
  if not stream then
    return { 'gone' }
  end
  stream[GENERATION] = stream[GENERATION] + 1
  save(keys[1], stream)
  wake(keys[2], args[1], args[2], args[3])
  return { 'ok', stream[GENERATION], stream[DELIVERED], stream[INCARNATION] or '0' }
end

-- What was delivered, what may be trimmed, how long to keep: hints, all in one.
-- KEYS record, events, what the keys of the owners' sets start with, what it takes to run it again
-- ARGV generation, delivered, trim, keep (0 = not said)
function actions.hint(keys, args)
  local stream = load(keys[1])
  if not stream then
    return { 'gone' }
  end
  local generation, delivered, trim, keep = tonumber(args[1]), tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  local changed = false
  if generation == stream[GENERATION] and delivered > stream[DELIVERED] then
    stream[DELIVERED] = math.min(delivered, stream[TAIL])
    changed = true
  end
  local count = redis.call('LLEN', keys[2])
  local drop = math.min(trim - (stream[TAIL] - count), count)
  if drop > 0 then
    for _, event in ipairs(redis.call('LPOP', keys[2], drop)) do
      stream[BYTES] = stream[BYTES] - size(event)
    end
    changed = true
  end
  if changed then
    save(keys[1], stream)
  end
  if keep > 0 and stream[SEAL] == '' then
    prolong(keys[1], keep)
    prolong(keys[2], keep + LONGER)
    prolong(keys[3] .. stream[OWNER], keep + LONGER)
    prolong(keys[4], keep)
  end
  return { 'ok' }
end

-- KEYS record, events, waiters, what the keys of the owners' sets start with, what it takes to run it again
-- ARGV id, tag, channel
function actions.remove(keys, args)
  local stream = load(keys[1])
  if stream then
    redis.call('SREM', keys[4] .. stream[OWNER], args[1])
    redis.call('DEL', keys[1], keys[2], keys[5])
    wake(keys[3], args[1], args[2], args[3])
  end
  return { 'ok' }
end

-- How far the log goes: for its writer, after a failover.
-- KEYS record
function actions.tail(keys)
  local stream = load(keys[1])
  if not stream then
    return { 'gone' }
  end
  return { 'ok', stream[EPOCH], stream[TAIL], stream[SEAL] ~= '' and 1 or 0 }
end
