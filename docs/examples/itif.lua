-- A Wireshark dissector of the itif wire protocol, version 2 (docs/protocol.md). Copy this file into the folder that
-- Wireshark names under About, Folders, Personal Lua Plugins, or load it once:
--
--     tshark -X lua_script:itif.lua -r capture.pcapng -Y itif
--
-- It dissects UDP port 9009 (a preference), and other ports if a datagram has the magic number, the version and a
-- valid header length. It needs no key: headers are never encrypted. With tenants' keys (a preference), it checks the
-- tags of `header` and `full`. It shows encrypted payloads as bytes. Tested with Wireshark 4.0 (Lua 5.2).
--
-- Filters: itif.tenant_id == 7, itif.type == 3, itif.status, itif.time > 0.1, itif.flags.retry, _ws.expert. The expert
-- infos of malformed datagrams are named as the drop reasons of itifd: itif.bad_field is `wire_bad_field`.

local itif = Proto("itif", "itif inference protocol")
itif.prefs.ports = Pref.range("UDP ports", "9009", "UDP ports of the servers", 65535)
itif.prefs.keys = Pref.string("Tenants' keys", "", "To check tags: tenant id=32 hexadecimal digits, …; stored as text")

local HEADER_BYTES, TAG_BYTES = 66, 16
local MIN_FRAGMENT_BYTES, MAX_FRAGMENT_BYTES = 64, 8896
local MAX_TOTAL_BYTES, MAX_STATUS_TEXT_BYTES, MAX_CLASS_NAME_BYTES = 16777216, 512, 1024
local MAX_RANGES, RANGE_BYTES = 64, 8
local MAX_SHOWN = 1024  -- token ids and values of one message in the tree

local function names(list, first)
    local out = {}
    for index, name in ipairs(list) do out[index + first - 1] = name end
    return out
end

local TYPES = names({ "request", "response", "status", "resend", "busy", "ack", "hello", "token", "ping", "pong" }, 1)
local REQUEST, RESPONSE, STATUS, RESEND, BUSY, ACK, HELLO, TOKEN, PING, PONG = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local AUTHS = names({ "none", "header", "full", "sealed" }, 0)
local SEALED = 3
local PAYLOAD_KINDS = names({ "none", "tokens_u16", "tokens_u32", "text", "image_u8", "image_f32", "raw" }, 0)
local RESULT_KINDS = names({ "default", "hidden", "pooled", "embedding", "logits", "token_logits", "classes",
    "tokens", "text" }, 0)
local STATUSES = names({ "ok", "unknown_tenant", "not_admitted", "malformed", "unsupported_kind", "too_long",
    "over_quota", "overloaded", "deadline_reassembly", "deadline_queue", "deadline_launch", "draining",
    "device_failed", "internal", "bad_tag", "token_required", "bad_epoch" }, 0)
local FLAGS = { { "no_cache", 1 }, { "segments", 2 }, { "retry", 4 }, { "of_response", 8 }, { "truncate", 16 },
    { "model_version", 32 } }
local OF_RESPONSE, MODEL_VERSION = 8, 32

local function has(flags, bit) return flags % (2 * bit) >= bit end

local function set(...)
    local out = {}
    for _, name in ipairs({ ... }) do out[name] = true end
    return out
end

-- The fields that each type uses, and its flags (section 2). Others must be zero.
local USED = {
    [REQUEST] = set("auth", "key_epoch", "sequence", "total_bytes", "offset", "fragment_bytes", "payload_bytes",
        "budget_us", "payload_kind", "result_kind", "token"),
    [RESPONSE] = set("auth", "key_epoch", "sequence", "total_bytes", "offset", "fragment_bytes", "payload_bytes",
        "budget_us", "result_kind", "status", "aux", "token"),
    [STATUS] = set("auth", "key_epoch", "sequence", "total_bytes", "payload_bytes", "status", "aux", "token"),
    [RESEND] = set("auth", "key_epoch", "sequence", "total_bytes", "fragment_bytes", "payload_bytes", "token"),
    [BUSY] = set("auth", "key_epoch", "sequence", "budget_us", "aux"),
    [ACK] = set("auth", "key_epoch", "sequence", "token"),
    [HELLO] = set(),
    [TOKEN] = set("budget_us", "token"),
    [PING] = set("total_bytes", "payload_bytes"),
    [PONG] = set("total_bytes", "payload_bytes"),
}
local USED_FLAGS = { [REQUEST] = 1 + 2 + 4 + 16 + 32, [RESPONSE] = 32, [RESEND] = 8 }
local OPTIONAL = { "auth", "total_bytes", "offset", "budget_us", "payload_bytes", "payload_kind", "result_kind",
    "key_epoch", "status", "fragment_bytes", "aux", "sequence", "token" }
local FROM_CLIENT = set(REQUEST, ACK, HELLO, PING)
local FROM_SERVER = set(RESPONSE, STATUS, BUSY, TOKEN, PONG)

-- The header in order: name, bytes, constructor, base, names of values.
local LAYOUT = {
    { "magic", 2, ProtoField.uint16, base.HEX }, { "version", 1, ProtoField.uint8, base.DEC },
    { "type", 1, ProtoField.uint8, base.DEC, TYPES }, { "header_bytes", 1, ProtoField.uint8, base.DEC },
    { "auth", 1, ProtoField.uint8, base.DEC, AUTHS }, { "tenant_id", 4, ProtoField.uint32, base.DEC },
    { "session", 4, ProtoField.uint32, base.HEX }, { "request_id", 8, ProtoField.uint64, base.HEX },
    { "total_bytes", 4, ProtoField.uint32, base.DEC }, { "offset", 4, ProtoField.uint32, base.DEC },
    { "budget_us", 4, ProtoField.uint32, base.DEC }, { "payload_bytes", 2, ProtoField.uint16, base.DEC },
    { "payload_kind", 1, ProtoField.uint8, base.DEC, PAYLOAD_KINDS },
    { "result_kind", 1, ProtoField.uint8, base.DEC, RESULT_KINDS }, { "flags", 2, ProtoField.uint16, base.HEX },
    { "key_epoch", 2, ProtoField.uint16, base.DEC }, { "status", 2, ProtoField.uint16, base.DEC, STATUSES },
    { "fragment_bytes", 2, ProtoField.uint16, base.DEC }, { "aux", 4, ProtoField.uint32, base.DEC },
    { "sequence", 8, ProtoField.uint64, base.HEX }, { "token", 8, ProtoField.uint64, base.HEX },
}

local f = {
    model_version = ProtoField.uint16("itif.model_version", "model version, modulo 65536"),
    tag = ProtoField.bytes("itif.tag", "tag"),
    tag_right = ProtoField.bool("itif.tag_right", "tag is right"),
    payload = ProtoField.bytes("itif.payload", "payload"),
    encrypted = ProtoField.bytes("itif.encrypted", "encrypted payload"),
    piece = ProtoField.uint32("itif.piece", "piece (counted from 0)"),
    pieces = ProtoField.uint32("itif.pieces", "pieces of the message"),
    message = ProtoField.bytes("itif.message", "message joined from its pieces"),
    joined_in = ProtoField.framenum("itif.joined_in", "message joined in", base.NONE),
    request_in = ProtoField.framenum("itif.request_in", "request in", base.NONE, frametype.REQUEST),
    response_in = ProtoField.framenum("itif.response_in", "answer in", base.NONE, frametype.RESPONSE),
    time = ProtoField.double("itif.time", "seconds since the request's first datagram"),
    range_offset = ProtoField.uint32("itif.range.offset", "first missing byte"),
    range_bytes = ProtoField.uint32("itif.range.bytes", "missing bytes"),
    text = ProtoField.string("itif.text", "text"),
    token_id = ProtoField.uint32("itif.token_id", "token id"),
    value = ProtoField.float("itif.value", "value"),
    height = ProtoField.uint16("itif.image.height", "height"),
    width = ProtoField.uint16("itif.image.width", "width"),
    channels = ProtoField.uint16("itif.image.channels", "channels"),
    class_index = ProtoField.uint32("itif.class.index", "index"),
    class_probability = ProtoField.float("itif.class.probability", "probability"),
    class_name = ProtoField.string("itif.class.name", "name"),
}
for _, entry in ipairs(LAYOUT) do f[entry[1]] = entry[3]("itif." .. entry[1], entry[1], entry[4], entry[5]) end
for _, flag in ipairs(FLAGS) do
    f["flag_" .. flag[1]] = ProtoField.bool("itif.flags." .. flag[1], flag[1], 16, nil, flag[2])
end
itif.fields = f

local function malformed(name, text)
    return ProtoExpert.new("itif." .. name, text, expert.group.MALFORMED, expert.severity.ERROR)
end

local e = {
    too_short = malformed("too_short", "shorter than a header"),
    bad_magic = malformed("bad_magic", "wrong magic number"),
    bad_version = malformed("bad_version", "another version of the protocol"),
    bad_type = malformed("bad_type", "unknown type"),
    bad_header_size = malformed("bad_header_size", "header_bytes or auth is wrong"),
    bad_length = malformed("bad_length", "payload_bytes is not the payload's length"),
    bad_kind = malformed("bad_kind", "unknown kind of payload or result"),
    bad_field = malformed("bad_field", "a field that must be zero is not"),
    bad_geometry = malformed("bad_geometry", "sizes break the rules of section 3"),
    unexpected_type = malformed("unexpected_type", "wrong direction"),
    bad_tag = ProtoExpert.new("itif.bad_tag", "the tag is wrong", expert.group.SECURITY, expert.severity.ERROR),
    bad_ranges = malformed("bad_ranges", "ranges break the rules of section 3"),
    bad_payload = malformed("bad_payload", "the payload does not match its kind"),
    cut = ProtoExpert.new("itif.cut", "the capture cut the datagram", expert.group.UNDECODED, expert.severity.NOTE),
    refused = ProtoExpert.new("itif.refused", "refused", expert.group.RESPONSE_CODE, expert.severity.NOTE),
    again = ProtoExpert.new("itif.again", "sent again", expert.group.SEQUENCE, expert.severity.NOTE),
    missing = ProtoExpert.new("itif.missing", "pieces are missing", expert.group.SEQUENCE, expert.severity.NOTE),
}
itif.experts = e

-- SipHash-2-4 with 128-bit output (section 7). Strings of 16 and any number of bytes; returns two UInt64.
local function siphash(key, message)
    local function word(text, at)
        local b = { string.byte(text, at, at + 7) }
        return UInt64(b[1] + b[2] * 2 ^ 8 + b[3] * 2 ^ 16 + b[4] * 2 ^ 24, b[5] + b[6] * 2 ^ 8 + b[7] * 2 ^ 16 + b[8] * 2 ^ 24)
    end
    local k0, k1 = word(key, 1), word(key, 9)
    local v0, v1 = k0:bxor(UInt64(0x70736575, 0x736f6d65)), k1:bxor(UInt64(0x6e646f6d, 0x646f7261), UInt64(0xee))
    local v2, v3 = k0:bxor(UInt64(0x6e657261, 0x6c796765)), k1:bxor(UInt64(0x79746573, 0x74656462))
    local function rounds(count)
        for _ = 1, count do
            v0, v2 = v0 + v1, v2 + v3
            v1, v3 = v1:rol(13):bxor(v0), v3:rol(16):bxor(v2)
            v0 = v0:rol(32)
            v0, v2 = v0 + v3, v2 + v1
            v3, v1 = v3:rol(21):bxor(v0), v1:rol(17):bxor(v2)
            v2 = v2:rol(32)
        end
    end
    local padded = message .. string.rep("\0", (7 - #message) % 8) .. string.char(#message % 256)
    for at = 1, #padded, 8 do
        local m = word(padded, at)
        v3 = v3:bxor(m)
        rounds(2)
        v0 = v0:bxor(m)
    end
    v2 = v2:bxor(UInt64(0xee))
    rounds(4)
    local first = v0:bxor(v1, v2, v3)
    v1 = v1:bxor(UInt64(0xdd))
    rounds(4)
    return first, v0:bxor(v1, v2, v3)
end

-- The keys by tenant: the preference may list the current and the previous one.
local keys_by_tenant, keys_text = {}, ""

-- Reads the preference after a change. Reports entries that are no keys.
local function read_keys()
    if keys_text == itif.prefs.keys then return end
    local keys = {}
    keys_by_tenant, keys_text = keys, itif.prefs.keys
    for entry in string.gmatch(keys_text, "[^,]+") do
        local id, key = string.match(entry, "^%s*(%d+)=(%x+)%s*$")
        if id and #key == 32 then
            local of = keys[tonumber(id)] or {}
            of[#of + 1] = string.gsub(key, "%x%x", function(digits) return string.char(tonumber(digits, 16)) end)
            keys[tonumber(id)] = of
        elseif string.find(entry, "%S") then
            -- The entry may be a mistyped key: do not print it.
            local name = string.match(entry, "^%s*(%d+)%s*=") or "?"
            local text = "itif.keys: the entry of tenant " .. name
                .. " is not TENANT-ID=KEY with 32 hexadecimal digits: its tags are not checked"
            if gui_enabled() then report_failure(text) else io.stderr:write(text, "\n") end
        end
    end
end

local function check_tag(tree, h, buffer)
    local keys = keys_by_tenant[h.tenant_id]
    if h.auth == 0 or h.auth == SEALED or not keys or buffer:len() < buffer:reported_len() then return end
    local message = buffer:raw(0, HEADER_BYTES)
    local covers_payload = AUTHS[h.auth] == "full" or (h.type ~= REQUEST and h.type ~= RESPONSE)
    if covers_payload and h.payload_bytes > 0 then message = message .. buffer:raw(h.header_bytes, h.payload_bytes) end
    local first, second = buffer(HEADER_BYTES, 8):le_uint64(), buffer(HEADER_BYTES + 8, 8):le_uint64()
    local right = false
    for _, key in ipairs(keys) do
        local low, high = siphash(key, message)
        right = right or (low == first and high == second)
    end
    tree:add(f.tag_right, right):set_generated()
    if not right then tree:add_proto_expert_info(e.bad_tag, "the tag is wrong: another key, or a changed datagram") end
end

local function is_server_port(port)
    for range in string.gmatch(itif.prefs.ports, "[^,%s]+") do
        local first, last = string.match(range, "^(%d+)-?(%d*)$")
        if first and port >= tonumber(first) and port <= (tonumber(last) or tonumber(first)) then return true end
    end
    return false
end

-- Exchanges by tenant, session and request id: {frame, time, answers = {{frame, id}, …}}. A repeated response is one
-- answer as long as its token is the same.
local exchanges = {}
-- Messages of several pieces: {count, bytes by offset until all are there, then joined_in and whole}.
local messages = {}

function itif.init() exchanges, messages = {}, {} end

-- The checks of lib/wire/parse.cc in its order; itifd counts the first that fails. Returns {{expert, text}, …}.
local function broken_rules(h, size, pinfo)
    local out = {}
    local function need(condition, reason, text)
        if not condition then out[#out + 1] = { reason, text } end
    end
    local used = USED[h.type]
    need(used, e.bad_type, "type " .. h.type .. " does not exist")
    local expected = HEADER_BYTES + (h.auth == 0 and 0 or TAG_BYTES)
    need(AUTHS[h.auth], e.bad_header_size, "auth " .. h.auth .. " does not exist")
    need(h.header_bytes == expected, e.bad_header_size, "header_bytes must be " .. expected .. " with this auth")
    need(size == h.header_bytes + h.payload_bytes, e.bad_length,
        string.format("the datagram has %d bytes, but header_bytes + payload_bytes is %d", size,
            h.header_bytes + h.payload_bytes))
    need(PAYLOAD_KINDS[h.payload_kind], e.bad_kind, "payload_kind " .. h.payload_kind .. " does not exist")
    need(RESULT_KINDS[h.result_kind], e.bad_kind, "result_kind " .. h.result_kind .. " does not exist")
    if not used then return out end
    local name = TYPES[h.type]
    for _, field in ipairs(OPTIONAL) do
        local value = h[field]
        if type(value) ~= "number" then value = value:tonumber() end  -- UInt64
        need(used[field] or value == 0, e.bad_field, field .. " must be 0 in a " .. name)
    end
    local known = USED_FLAGS[h.type] or 0
    for bit = 0, 15 do
        if has(h.flags, 2 ^ bit) and not has(known, 2 ^ bit) then
            local flag = FLAGS[bit + 1] and FLAGS[bit + 1][1] or tostring(bit)
            need(false, e.bad_field, "flag " .. flag .. " must be clear in a " .. name)
        end
    end
    need(h.type ~= STATUS or h.status ~= 0, e.bad_field, "status must not be 0 in a status")
    need(h.type ~= RESPONSE or has(h.flags, MODEL_VERSION) or h.status == 0, e.bad_field,
        "status must be 0 in a response without the flag model_version")
    local fragment, total, rest = h.fragment_bytes, h.total_bytes, h.total_bytes - h.offset
    if h.type == REQUEST or h.type == RESPONSE or h.type == RESEND then
        need(fragment >= MIN_FRAGMENT_BYTES and fragment <= MAX_FRAGMENT_BYTES and fragment % 4 == 0, e.bad_geometry,
            "fragment_bytes must be a multiple of 4 between 64 and 8896")
        need(total <= MAX_TOTAL_BYTES, e.bad_geometry, "total_bytes must be at most 16777216")
    end
    if h.type == RESEND then
        need(total > 0, e.bad_geometry, "total_bytes must not be 0 in a resend")
        need(h.payload_bytes % RANGE_BYTES == 0 and h.payload_bytes > 0 and
            h.payload_bytes <= MAX_RANGES * RANGE_BYTES, e.bad_geometry, "a resend must have 1 to 64 ranges")
    elseif h.type == REQUEST or h.type == RESPONSE then
        need(rest > 0 or (h.offset == 0 and total == 0), e.bad_geometry, "offset must be less than total_bytes")
        need(fragment == 0 or h.offset % fragment == 0, e.bad_geometry,
            "offset must be a multiple of fragment_bytes")
        need(rest < 0 or h.payload_bytes == math.min(fragment, rest), e.bad_geometry,
            "payload_bytes must be min(fragment_bytes, total_bytes - offset)")
    else
        need(total == h.payload_bytes, e.bad_geometry, "total_bytes must be payload_bytes")
        need(h.type ~= STATUS or total <= MAX_STATUS_TEXT_BYTES, e.bad_geometry,
            "the text of a status must have at most 512 bytes")
        need(h.type < PING or total <= MAX_FRAGMENT_BYTES, e.bad_geometry,
            "a ping must have a payload of at most 8896 bytes")
    end
    -- Direction: only if the ports tell which side is the server.
    local to, from = is_server_port(pinfo.dst_port), is_server_port(pinfo.src_port)
    if to ~= from then
        local from_client = FROM_CLIENT[h.type] or (h.type == RESEND and has(h.flags, OF_RESPONSE)) or false
        need(from_client == to, e.unexpected_type,
            string.format("only a %s sends this %s", to and "server" or "client", name))
    end
    return out
end

local function id_text(h) return "0x" .. h.request_id:tohex() end

-- Finds the exchange of a datagram, adds it on the first pass, and shows the links that are known.
local function track(tree, h, key, pinfo)
    local asks, answers = h.type == REQUEST or h.type == HELLO or h.type == PING,
        h.type == RESPONSE or h.type == STATUS or h.type == TOKEN or h.type == PONG
    local kind = (h.type == HELLO or h.type == TOKEN) and "hello" or (h.type >= PING and "ping") or "request"
    key = kind .. key
    local exchange = exchanges[key]
    if not pinfo.visited then
        if not exchange and asks then
            exchange = { frame = pinfo.number, time = pinfo.rel_ts, answers = {} }
            exchanges[key] = exchange
        end
        if exchange and answers then
            local last = exchange.answers[#exchange.answers]
            local id = h.type == RESPONSE and tostring(h.token) or tostring(pinfo.number)
            if not last or last.id ~= id then
                exchange.answers[#exchange.answers + 1] = { frame = pinfo.number, id = id }
            end
        end
    end
    if not exchange then return end
    if asks then
        if exchange.frame < pinfo.number then
            tree:add(f.request_in, exchange.frame):set_generated():append_text(" (the first datagram of this request)")
        end
        for _, answer in ipairs(exchange.answers) do
            if answer.frame > pinfo.number then
                tree:add(f.response_in, answer.frame):set_generated()
                break
            end
        end
    elseif exchange.frame < pinfo.number then
        tree:add(f.request_in, exchange.frame):set_generated()
        if answers or h.type == BUSY then
            tree:add(f.time, pinfo.rel_ts - exchange.time):set_generated()
        end
    end
end

-- Keeps a piece on the first pass. Returns the message that it belongs to.
local function join(h, key, payload, pinfo)
    key = table.concat({ TYPES[h.type], h.type == RESPONSE and tostring(h.token) or "", h.total_bytes,
        h.fragment_bytes, key }, ":")
    local message = messages[key] or { count = 0, bytes = {} }
    messages[key] = message
    if not pinfo.visited and not message.whole and not message.bytes[h.offset] then
        message.bytes[h.offset] = payload:bytes()
        message.count = message.count + 1
        if message.count == math.ceil(h.total_bytes / h.fragment_bytes) then
            message.whole, message.joined_in = ByteArray.new(), pinfo.number
            for at = 0, h.total_bytes - 1, h.fragment_bytes do message.whole:append(message.bytes[at]) end
            message.bytes = nil
        end
    end
    return message
end

-- UTF-8 text. Wireshark 4.0 replaces invalid bytes with longer ones, and then cuts the text to its old length: drops
-- the rest of a character that this leaves at the end.
local function text_of(range)
    local text = range:string(ENC_UTF_8)
    local lead, rest = string.match(text, "([\xC0-\xFF])([\x80-\xBF]*)$")
    if not lead then return text end
    local needed = string.byte(lead) >= 0xF0 and 3 or string.byte(lead) >= 0xE0 and 2 or 1
    return #rest == needed and text or string.sub(text, 1, -2 - #rest)
end

local function show_values(tree, payload, bytes, field, what)
    local count = math.floor(payload:len() / bytes)
    local values = tree:add(itif, payload, count .. " " .. what)
    for index = 0, math.min(count, MAX_SHOWN) - 1 do values:add_le(field, payload(index * bytes, bytes)) end
    if count > MAX_SHOWN then values:append_text(", of which the first " .. MAX_SHOWN .. " follow") end
    return payload:len() % bytes == 0
end

-- Each returns whether the payload matches its kind.
local function show_classes(tree, payload)
    local at = 0
    while at < payload:len() do
        if payload:len() - at < 12 then return false end
        local bytes = payload(at + 8, 4):le_uint()
        local whole = 12 + math.ceil(bytes / 4) * 4
        if bytes > MAX_CLASS_NAME_BYTES or payload:len() - at < whole then return false end
        local name = bytes > 0 and text_of(payload(at + 12, bytes)) or ""
        local probability = payload(at + 4, 4):le_float()
        local class = tree:add(itif, payload(at, whole), string.format("class %s: %.4f", name, probability))
        class:add_le(f.class_index, payload(at, 4))
        class:add_le(f.class_probability, payload(at + 4, 4))
        if bytes > 0 then class:add_packet_field(f.class_name, payload(at + 12, bytes), ENC_UTF_8) end
        at = at + whole
    end
    return true
end

local function show_image(tree, payload, pixel_bytes)
    if payload:len() < 8 then return false end
    local height, width, channels = payload(0, 2):le_uint(), payload(2, 2):le_uint(), payload(4, 2):le_uint()
    tree:add_le(f.height, payload(0, 2))
    tree:add_le(f.width, payload(2, 2))
    tree:add_le(f.channels, payload(4, 2))
    return height * width * channels * pixel_bytes == payload:len() - 8 and payload:len() > 8
end

local function show_text(tree, payload)
    if payload:len() == 0 then return true end
    local raw, at = payload:raw(), 1
    repeat  -- U+0000 separates two texts
        local zero = string.find(raw, "\0", at, true) or #raw + 1
        if zero > at then tree:add_packet_field(f.text, payload(at - 1, zero - at), ENC_UTF_8) end
        at = zero + 1
    until at > #raw
    return true
end

local SHOW_PAYLOAD = {
    [0] = function(_, payload) return payload:len() == 0 end,
    function(tree, payload) return show_values(tree, payload, 2, f.token_id, "token ids") and payload:len() > 0 end,
    function(tree, payload) return show_values(tree, payload, 4, f.token_id, "token ids") and payload:len() > 0 end,
    show_text,
    function(tree, payload) return show_image(tree, payload, 1) end,
    function(tree, payload) return show_image(tree, payload, 4) end,
    function() return true end,
}

-- Shows a whole message. `payload` is a TvbRange or, if it is empty, nil.
local function show_message(tree, h, payload, pinfo)
    if not payload then
        if h.type == REQUEST and h.payload_kind > 0 and PAYLOAD_KINDS[h.payload_kind] ~= "raw" then
            tree:add_proto_expert_info(e.bad_payload, "the payload is empty")
        end
        return
    end
    local matches = true
    if h.type == STATUS then
        show_text(tree, payload)
        pinfo.cols.info:append(": " .. text_of(payload))
    elseif h.type == REQUEST then
        matches = SHOW_PAYLOAD[h.payload_kind](tree, payload)
    elseif RESULT_KINDS[h.result_kind] == "classes" then
        matches = show_classes(tree, payload)
    elseif RESULT_KINDS[h.result_kind] == "text" then
        show_text(tree, payload)
    elseif RESULT_KINDS[h.result_kind] == "tokens" then
        matches = show_values(tree, payload, 4, f.token_id, "token ids")
    else
        matches = show_values(tree, payload, 4, f.value, "values in " .. h.aux .. " rows")
    end
    if not matches then
        local kind = h.type == REQUEST and PAYLOAD_KINDS[h.payload_kind] or RESULT_KINDS[h.result_kind]
        tree:add_proto_expert_info(e.bad_payload, "the payload does not match its kind, " .. kind)
    end
end

local function show_ranges(tree, h, payload)
    local broken, last = false, 0
    for at = 0, payload:len() - RANGE_BYTES, RANGE_BYTES do
        local offset, bytes = payload(at, 4):le_uint(), payload(at + 4, 4):le_uint()
        local range = tree:add(itif, payload(at, RANGE_BYTES), bytes .. " bytes at " .. offset)
        range:add_le(f.range_offset, payload(at, 4))
        range:add_le(f.range_bytes, payload(at + 4, 4))
        local past = offset + bytes
        broken = broken or bytes == 0 or offset % 4 ~= 0 or offset < last or past > h.total_bytes or
            (past % 4 ~= 0 and past ~= h.total_bytes)
        last = past
    end
    if broken then
        tree:add_proto_expert_info(e.bad_ranges, "ranges must be ascending, lie within total_bytes, and be aligned to 4")
    end
end

-- The info column: the datagram in words.
local function describe(h)
    local name, id = TYPES[h.type] or ("type " .. h.type), id_text(h)
    local out = name .. " " .. id
    if h.type == REQUEST or h.type == RESPONSE then
        local pieces = h.fragment_bytes > 0 and math.max(math.ceil(h.total_bytes / h.fragment_bytes), 1) or 1
        local at = h.fragment_bytes > 0 and math.floor(h.offset / h.fragment_bytes) or 0
        out = string.format("%s, piece %d of %d", out, at, pieces)
    elseif h.type == STATUS then
        out = string.format("status %s of %s", STATUSES[h.status] or h.status, id)
    elseif h.type == RESEND then
        out = string.format("resend %d ranges of the %s %s", math.floor(h.payload_bytes / RANGE_BYTES),
            has(h.flags, OF_RESPONSE) and "response" or "request", id)
    elseif h.type == BUSY then
        out = string.format("%s, %.0f requests wait, ask again after %.0f µs", out, h.aux, h.budget_us)
    end
    out = string.format("%s, tenant %.0f", out, h.tenant_id)
    if h.type == REQUEST then out = out .. ", " .. (PAYLOAD_KINDS[h.payload_kind] or "unknown kind") end
    if h.type == RESPONSE then out = out .. ", " .. (RESULT_KINDS[h.result_kind] or "unknown kind") end
    if h.type == REQUEST and has(h.flags, 4) then out = out .. ", sent again" end
    return out
end

local NOTES = {  -- units of the fields that types use differently
    budget_us = { [REQUEST] = " µs until the deadline, 0: none", [RESPONSE] = " µs spent in the server",
        [BUSY] = " µs until the client asks again", [TOKEN] = " µs for which the token is valid at least" },
    aux = { [RESPONSE] = " rows", [STATUS] = " µs until the client tries again, 0: unknown",
        [BUSY] = " requests waiting" },
}

local function show_header(tree, h, buffer)
    local header, at = tree:add(itif, buffer(0, HEADER_BYTES), "Header"), 0
    for _, entry in ipairs(LAYOUT) do
        local name, range = entry[1], buffer(at, entry[2])
        local is_version = name == "status" and h.type == RESPONSE and has(h.flags, MODEL_VERSION)
        local item = header:add_le(is_version and f.model_version or f[name], range)
        local note = NOTES[name] and NOTES[name][h.type]
        if note then item:append_text(note) end
        if name == "flags" then
            for _, flag in ipairs(FLAGS) do item:add_le(f["flag_" .. flag[1]], range) end
        end
        at = at + entry[2]
    end
end

local function show_payload(tree, h, key, buffer, pinfo)
    local size = math.min(h.payload_bytes, buffer:len() - h.header_bytes)
    local payload = size > 0 and buffer(h.header_bytes, size) or nil
    local is_piece = h.type == REQUEST or h.type == RESPONSE
    local pieces = is_piece and math.max(math.ceil(h.total_bytes / h.fragment_bytes), 1) or 1
    if is_piece then
        tree:add(f.piece, math.floor(h.offset / h.fragment_bytes)):set_generated()
        tree:add(f.pieces, pieces):set_generated()
    end
    if payload then tree:add(h.auth == SEALED and f.encrypted or f.payload, payload) end
    if size < h.payload_bytes then
        tree:add_proto_expert_info(e.cut)
    elseif h.auth == SEALED then
        return
    elseif h.type == RESEND then
        show_ranges(tree, h, payload)
    elseif pieces == 1 and (is_piece or h.type == STATUS) then
        show_message(tree, h, payload, pinfo)
    elseif is_piece then
        local message = join(h, key, payload, pinfo)
        if message.joined_in == pinfo.number then
            local whole = message.whole:tvb("joined itif message")
            tree:add(f.message, whole:range()):set_generated()
            show_message(tree, h, whole:range(), pinfo)
        elseif message.joined_in then
            tree:add(f.joined_in, message.joined_in):set_generated()
        end
    end
end

local function read_header(buffer)
    local h, at = {}, 0
    for _, entry in ipairs(LAYOUT) do
        local range = buffer(at, entry[2])
        h[entry[1]] = entry[2] == 8 and range:le_uint64() or range:le_uint()
        at = at + entry[2]
    end
    return h
end

local function malformed_info(tree, pinfo, reason, text)
    tree:add_proto_expert_info(reason, text)
    pinfo.cols.info = "malformed: " .. text
end

function itif.dissector(buffer, pinfo, root)
    local size, captured = buffer:reported_len(), buffer:len()
    pinfo.cols.protocol = "itif"
    local tree = root:add(itif, buffer:range(0, captured))
    if captured < HEADER_BYTES and captured < size then
        tree:add_proto_expert_info(e.cut)
        pinfo.cols.info = "cut by the capture"
        return captured
    end
    if size >= 3 and buffer(0, 2):le_uint() == 0x4649 and buffer(2, 1):uint() ~= 2 then
        tree:add_le(f.magic, buffer(0, 2))
        tree:add_le(f.version, buffer(2, 1))
        malformed_info(tree, pinfo, e.bad_version, "version " .. buffer(2, 1):uint() ..
            " of the protocol: a server of version 2 drops it")
        return captured
    end
    if size < HEADER_BYTES then
        malformed_info(tree, pinfo, e.too_short, size .. " bytes, but a header has " .. HEADER_BYTES)
        return captured
    end
    if buffer(0, 2):le_uint() ~= 0x4649 then
        tree:add_le(f.magic, buffer(0, 2))
        malformed_info(tree, pinfo, e.bad_magic, "the magic number is not 0x4649")
        return captured
    end
    local h = read_header(buffer)
    local key = tostring(buffer(6, 16):bytes())  -- tenant, session, request id
    pinfo.cols.info = describe(h)
    tree:append_text(", " .. describe(h))
    show_header(tree, h, buffer)
    if h.auth > 0 and captured >= HEADER_BYTES + TAG_BYTES then
        tree:add(f.tag, buffer(HEADER_BYTES, TAG_BYTES))
    end
    local broken = broken_rules(h, size, pinfo)
    if #broken > 0 then
        for _, rule in ipairs(broken) do tree:add_proto_expert_info(rule[1], rule[2]) end
        pinfo.cols.info = "malformed: " .. describe(h) .. ": " .. broken[1][2]
        return captured
    end
    if h.type == STATUS then
        tree:add_proto_expert_info(e.refused, "refused: " .. (STATUSES[h.status] or "unknown status, as internal"))
    elseif h.type == RESEND then
        tree:add_proto_expert_info(e.missing)
    elseif h.type == REQUEST and has(h.flags, 4) then
        tree:add_proto_expert_info(e.again)
    end
    check_tag(tree, h, buffer)
    track(tree, h, key, pinfo)
    show_payload(tree, h, key, buffer, pinfo)
    return captured
end

-- On other ports: the magic number, the version, a known type, and the header length that goes with auth.
itif:register_heuristic("udp", function(buffer, pinfo, root)
    if buffer:len() < HEADER_BYTES or buffer(0, 2):le_uint() ~= 0x4649 or buffer(2, 1):uint() ~= 2 or
        not TYPES[buffer(3, 1):uint()] or not AUTHS[buffer(5, 1):uint()] or
        buffer(4, 1):uint() ~= HEADER_BYTES + (buffer(5, 1):uint() == 0 and 0 or TAG_BYTES) then
        return false
    end
    itif.dissector(buffer, pinfo, root)
    return true
end)

local udp_ports = DissectorTable.get("udp.port")
local registered = itif.prefs.ports
udp_ports:add(registered, itif)

function itif.prefs_changed()
    read_keys()
    if registered == itif.prefs.ports then return end
    if registered ~= "" then udp_ports:remove(registered, itif) end
    registered = itif.prefs.ports
    if registered ~= "" then udp_ports:add(registered, itif) end
end
