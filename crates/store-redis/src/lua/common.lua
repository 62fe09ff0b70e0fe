-- What all actions share. Everything that an action touches carries one hash tag, so it is in one slot.
--
-- A stream is two keys: its record, one packed list (the places below), and the list of its events; a call that may be run again has a
-- third one with what that takes. A record may have more places than we know: a newer version's. They are kept.
--
-- Each event starts with its id, `<epoch>-<offset> `: who reads a run checks that it has no hole.

local actions = {}

local EPOCH, START, OWNER, STANDALONE, MAX_EVENTS, MAX_BYTES = 2, 3, 4, 5, 6, 7
local TAIL, BYTES, GENERATION, DELIVERED, SEAL, WRITER, NONCE = 8, 9, 10, 11, 12, 13, 14
local SESSION, REQUEST, INCARNATION = 15, 16, 17

-- Events outlive their record by this, in milliseconds: a record without its events would look like an eviction.
local LONGER = 1000

local function load(key)
  local packed = redis.call('GET', key)
  if packed then
    return cmsgpack.unpack(packed)
  end
end

local function save(key, value)
  redis.call('SET', key, cmsgpack.pack(value), 'KEEPTTL')
end

local function prolong(key, ttl)
  if redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, ttl)
  end
end

local function seconds()
  return tonumber(redis.call('TIME')[1])
end

-- Tells the other backends that wait for a stream. A hint: that a backend may not publish must not fail the write.
local function wake(waiters, id, tag, channel)
  local registered = redis.call('HGETALL', waiters)
  local now
  for at = 1, #registered, 2 do
    local who = registered[at]
    if who ~= tag then
      now = now or seconds()
      if tonumber(registered[at + 1]) < now then
        redis.call('HDEL', waiters, who)
      else
        redis.pcall('PUBLISH', channel .. who, id)
      end
    end
  end
end

-- The bytes of payload in an event as it is kept.
local function size(event)
  return #event - string.find(event, ' ', 1, true)
end
