/** Bugs in the single machine: the event source (local/event-source), the gateway (local/gateway) and gRPC (local/grpc). */
import type { Suite } from '../mutant.ts';

const RECEIVE = 'test/local/event-source/receive.test.ts';
const GATHER = 'test/local/event-source/gather.test.ts';
const EVENT = 'test/local/event-source/event.test.ts';
const FAILURE = 'test/local/event-source/failure.test.ts';
const POLLER = 'test/local/event-source/poller.test.ts';
const LIMITS = 'test/local/gateway/limits.test.ts';
const GATEWAY_EVENT = 'test/local/gateway/event.test.ts';
const RESPONSE = 'test/local/gateway/response.test.ts';
const INVOKE = 'test/local/aws/lambda.test.ts';
const SECURITY = 'test/security/http.test.ts';
const GRPC_CALLS = 'test/local/grpc/calls.test.ts';
const GRPC_PROTECTION = 'test/local/grpc/protection.test.ts';

export const LOCAL: readonly Suite[] = [
  {
    file: 'local/grpc/admission.ts',
    tests: [GRPC_PROTECTION],
    bugs: [
      {
        guarantee: 'a call over gRPC needs the token',
        find: 'if (token === undefined || isBearer',
        replace: 'if (true || isBearer',
      },
      {
        guarantee: 'a call over gRPC under a foreign name is refused',
        find: 'if (!isOwnHost(host, allowedHosts, address)) {',
        replace: 'if (false) {',
      },
      {
        guarantee: 'calls over gRPC have a limit',
        find: 'if (this.#calls >= MAX_CALLS)',
        replace: 'if (false)',
      },
      {
        guarantee: 'a call that has ended leaves its place',
        find: 'this.#calls--;',
        replace: '',
      },
      {
        guarantee: 'a message that does not arrive makes room for the next',
        find: '      next();\n    };\n    if',
        replace: '    };\n    if',
      },
    ],
  },
  {
    file: 'local/grpc/server.ts',
    tests: [GRPC_PROTECTION],
    bugs: [
      {
        guarantee: 'a client that left is not run any more',
        find: 'call.cancelled ? 0 : endMs',
        replace: 'false ? 0 : endMs',
      },
      {
        guarantee: 'the bytes of messages have a limit together',
        find: 'if (held.bytes + bytes > held.most)',
        replace: 'if (false)',
      },
      {
        guarantee: 'an answer over the limit is refused with our own words',
        find: 'if (length > LIMITS.frameBytes)',
        replace: 'if (false)',
      },
      {
        guarantee: 'calls that run are answered before the port closes',
        find: 'server.tryShutdown(() => resolve());',
        replace: 'resolve();',
      },
    ],
  },
  {
    file: 'local/grpc/status.ts',
    tests: [GRPC_PROTECTION],
    bugs: [
      {
        guarantee: 'the status of an error shows nothing of the machine',
        find: 'known.publicMessage.slice',
        replace: 'known.message.slice',
      },
      {
        guarantee: 'half of a character in an error ends no process',
        find: '.toWellFormed()',
        replace: '',
      },
    ],
  },
  {
    file: 'local/grpc/request.ts',
    tests: [GRPC_CALLS],
    bugs: [
      {
        guarantee: 'a message has a limit of parts',
        find: 'items: MOST_ITEMS',
        replace: 'items: 10_000_000',
      },
      {
        guarantee: 'typed contents have as many elements as their shape',
        find: 'if (data.length !== count) {',
        replace: 'if (false) {',
      },
      {
        guarantee: 'a number that does not fit its type is refused',
        find: 'if (SMALLER.has(dtype))',
        replace: 'if (false)',
      },
      {
        guarantee: 'each input has its own bytes',
        find: 'if (raw.length > 0 && raw.length !== inputs.length) {',
        replace: 'if (false) {',
      },
    ],
  },
  {
    file: 'local/event-source/event.ts',
    tests: [EVENT],
    bugs: [
      {
        guarantee: 'an unknown id fails the whole batch, as on Lambda',
        find: "if (!messageIds.has(id)) return broken('itemIdentifier is no message of this batch', id);",
        replace: '',
      },
      {
        guarantee: 'an empty id fails the whole batch',
        find: "typeof id !== 'string' || id === ''",
        replace: "typeof id !== 'string'",
        survives:
          'Equivalent: an empty id is no message of the batch, which the next check refuses in the same way.',
      },
      {
        guarantee: 'an answer that is no object fails the whole batch',
        find: "if (typeof result !== 'object' || Array.isArray(result))",
        replace: "if (typeof result === 'number')",
      },
      {
        guarantee: 'a list that is none fails the whole batch',
        find: "if (!Array.isArray(failures)) return broken('batchItemFailures is not a list', failures);",
        replace: 'if (!Array.isArray(failures)) return nothingFailed;',
      },
      {
        guarantee: 'the receive count of the queue reaches the function',
        find: '      ...message.Attributes,\n',
        replace: '',
        tests: [EVENT, POLLER],
      },
    ],
  },
  {
    file: 'local/event-source/gather.ts',
    tests: [GATHER],
    bugs: [
      {
        guarantee: 'a batch has at most batchSize messages',
        find: 'if (count === batchSize || ',
        replace: 'if (',
      },
      {
        guarantee: 'an event stays below 6 MB',
        find: '(count > 0 && bytes + message.bytes > maxBytes)',
        replace: '(count > 0 && bytes > maxBytes)',
      },
      {
        guarantee: 'a message over the limit is handed on alone',
        find: '(count > 0 && bytes + message.bytes > maxBytes)',
        replace: 'bytes + message.bytes > maxBytes',
      },
      {
        guarantee: 'a batch closes at the end of its window',
        find: ' || nowMs >= dueAtMs',
        replace: '',
      },
      {
        guarantee: 'a batch closes before it passes the size limit',
        find: 'this.#bytes > maxBytes || ',
        replace: '',
      },
      {
        guarantee: 'what leaves a batch no longer counts',
        find: 'this.#bytes -= bytes;',
        replace: '',
      },
    ],
  },
  {
    file: 'local/event-source/delete.ts',
    tests: [RECEIVE],
    bugs: [
      {
        guarantee: 'ten messages are deleted in a call',
        find: 'MAX_PER_CALL = 10',
        replace: 'MAX_PER_CALL = 11',
      },
      {
        guarantee: 'a deletion that SQS refused is tried again',
        find: 'else this.#again([entry]);\n      }',
        replace: 'else this.#end(entry, true);\n      }',
      },
      {
        guarantee: 'an expired receipt handle is not tried again',
        find: 'else if (failure.SenderFault === true)',
        replace: 'else if (failure.SenderFault === null)',
      },
      {
        guarantee: 'a deletion is given up after five tries',
        find: 'if (entry.attempts < MAX_ATTEMPTS)',
        replace: 'if (entry.attempts < 2 * MAX_ATTEMPTS)',
      },
      {
        guarantee: 'four deletions run at once',
        find: 'MAX_CALLS = 4',
        replace: 'MAX_CALLS = 1',
      },
    ],
  },
  {
    file: 'local/event-source/receive.ts',
    tests: [RECEIVE],
    bugs: [
      {
        guarantee: 'no more messages are asked for than there is room for, calls under way included',
        find: 'this.#options.room() - this.#asked',
        replace: 'this.#options.room()',
      },
      {
        guarantee: 'at most five calls at once',
        find: 'MAX_CALLS = 5',
        replace: 'MAX_CALLS = 50',
      },
      {
        guarantee: 'empty answers that come at once do not spin',
        find: 'if (this.#hasty > 2) this.#wait(Math.min(MAX_HASTY_PAUSE_MS, 2 ** this.#hasty));',
        replace: '',
      },
      {
        guarantee: 'waits after errors double up to 10 s',
        find: 'MAX_BACKOFF_MS = 10_000',
        replace: 'MAX_BACKOFF_MS = 100_000',
      },
      {
        guarantee: 'a long poll that is never answered is given up',
        find: 'setTimeout(() => call.abort(), waitSeconds * 1000 + ANSWER_MS)',
        replace: 'setTimeout(() => undefined, waitSeconds * 1000 + ANSWER_MS)',
      },
      {
        guarantee: 'what a call still brings after stop is handed on',
        find: 'if (messages.length > 0) this.#options.onMessages(messages);',
        replace: 'if (messages.length > 0 && !this.#stopped) this.#options.onMessages(messages);',
      },
      {
        guarantee: 'a random half of each wait is taken',
        find: 'fullMs * (0.5 + random() / 2)',
        replace: 'fullMs',
      },
    ],
  },
  {
    file: 'local/event-source/poller.ts',
    tests: [POLLER, FAILURE],
    bugs: [
      {
        guarantee: 'messages named in batchItemFailures stay in the queue',
        find: 'batch.filter((message) => !verdict.failedIds.has(message.messageId))',
        replace: 'batch',
      },
      {
        guarantee: 'messages of an invocation that failed stay in the queue',
        find: 'this.#failedInvocations += 1;\n    return [];',
        replace: 'this.#failedInvocations += 1;\n    return batch;',
      },
      {
        guarantee: 'never more than maximumConcurrency invocations run',
        find: 'while (this.#running < this.#options.maximumConcurrency) {',
        replace: 'while (this.#running <= this.#options.maximumConcurrency) {',
        tests: ['test/local/event-source/concurrency.test.ts'],
      },
      {
        guarantee: 'what was received and not invoked is given back at close',
        find: 'await this.#giveBack(this.#gatherer.drain());',
        replace: 'this.#gatherer.drain();',
        tests: [FAILURE],
      },
      {
        guarantee: 'what is given back is visible at once',
        find: 'VisibilityTimeout: 0,',
        replace: 'VisibilityTimeout: 30,',
        tests: [FAILURE],
      },
      {
        guarantee: 'close waits for the invocation under way',
        find: 'await Promise.race([this.idle(), limit]);',
        replace: '',
        tests: [FAILURE],
      },
    ],
  },
  {
    file: 'local/event-source/options.ts',
    tests: [FAILURE],
    bugs: [
      {
        guarantee: 'a visibility timeout shorter than the function timeout is refused, as on Lambda',
        find: 'if (visibilitySeconds * 1000 < functionTimeoutMs) {',
        replace: 'if (visibilitySeconds < 0) {',
      },
      {
        guarantee: 'a batch of more than ten needs a window, as on Lambda',
        find: 'options.batchSize > 10 && options.windowSeconds < 1',
        replace: 'options.batchSize > 10_000 && options.windowSeconds < 1',
        tests: ['test/local/event-source/options.test.ts'],
      },
      {
        guarantee: 'a FIFO queue is refused',
        find: "options.queueUrl.endsWith('.fifo')",
        replace: "options.queueUrl.endsWith('.lifo')",
        tests: ['test/local/event-source/options.test.ts'],
      },
    ],
  },
  {
    file: 'local/aws/storage.ts',
    tests: ['test/local/aws/direct.test.ts'],
    bugs: [
      {
        guarantee: 'a delivery is counted on the disk before its message is handed out',
        find: 'void count.run(messageId, times, first ?? null)',
        replace: 'undefined',
      },
      {
        guarantee: 'the count of deliveries goes with its message',
        find: 'forget.run(messageId);',
        replace: '',
      },
      {
        guarantee: 'deliveries of the last run count after a restart',
        find: 'SET approximate_receive_count = count,',
        replace: 'SET approximate_receive_count = 0,',
      },
    ],
  },
  {
    file: 'local/aws/lambda.ts',
    tests: [INVOKE],
    bugs: [
      {
        guarantee: 'a result that came after the deadline is timed out',
        find: "clock() - startedMs > afterMs ? { kind: 'timed_out', afterMs } : invocation",
        replace: 'invocation',
      },
      {
        guarantee: 'the remaining time is never below 0',
        find: 'Math.max(0, this.#deadlineMs - this.#clock())',
        replace: 'this.#deadlineMs - this.#clock()',
      },
      {
        guarantee: 'an invocation ends at the shorter of its two limits',
        find: 'Math.min(limitMs, facts.timeoutMs)',
        replace: 'facts.timeoutMs',
      },
      {
        guarantee: 'a response has at most 6 MiB and 100 bytes',
        find: 'MAX_RESULT_BYTES = MAX_EVENT_BYTES + 100',
        replace: 'MAX_RESULT_BYTES = MAX_EVENT_BYTES + 1_000',
        tests: [RESPONSE],
      },
      {
        guarantee: 'an event has at most 6 MiB',
        find: 'MAX_EVENT_BYTES = 6 * 1024 * 1024',
        replace: 'MAX_EVENT_BYTES = 7 * 1024 * 1024',
        tests: [RESPONSE, LIMITS],
      },
    ],
  },
  {
    file: 'local/gateway/body.ts',
    tests: [LIMITS],
    bugs: [
      {
        guarantee: 'an announced body over 10 MiB is refused before it is read',
        find: 'if (announcedBytes !== undefined && announcedBytes > maxBytes) {',
        replace: 'if (announcedBytes === -1) {',
        tests: ['test/local/gateway/body.test.ts'],
      },
      {
        guarantee: 'a chunked body over 10 MiB is refused while it is read',
        find: "if (length > maxBytes) end({ kind: 'too_large' });\n      else ",
        replace: '',
        tests: ['test/local/gateway/body.test.ts'],
      },
      {
        guarantee: 'a body that there is no memory for is refused',
        find: "else if (!hold(chunk.length)) end({ kind: 'no_room' });",
        replace: 'else if (!hold(chunk.length)) chunks.push(chunk);',
      },
      {
        guarantee: 'a client that sends without an end is cut',
        find: 'if (dropped > MAX_DROPPED_BYTES) request.socket.destroy();',
        replace: '',
        tests: ['test/local/gateway/body.test.ts'],
      },
    ],
  },
  {
    file: 'local/gateway/requests.ts',
    tests: [LIMITS],
    bugs: [
      {
        guarantee: 'request line and headers have at most 10,240 bytes',
        find: 'if (head.bytes > MAX_HEADER_BYTES) return refuse(431);',
        replace: '',
      },
      {
        guarantee: 'one request more than there are slots is answered with 429',
        find: 'if (places.isFull && (await staysFull(places)))',
        replace: 'if (places.isFull && !(await staysFull(places)))',
      },
      {
        guarantee: 'routes with slots of their own are answered while all others are busy',
        find: 'if (route.ownSlots) return ownSlots;',
        replace: 'if (route.ownSlots) return places;',
      },
      {
        guarantee: 'clients that wait for results take no slot of other requests',
        find: 'route.waits?.(headers, query) ? waitSlots : places',
        replace: 'places',
        tests: ['test/local/gateway/waits.test.ts'],
      },
      {
        guarantee: 'the bytes of a body are free again when its handler has ended',
        find: 'state.heldBytes -= heldBytes;',
        replace: '',
      },
      {
        guarantee: 'the bytes of all bodies are limited',
        find: 'if (state.heldBytes + bytes > state.maxHeldBytes) return false;',
        replace: '',
      },
      {
        guarantee: 'an event over 6 MB is answered with 413',
        find: 'if (maxBytes === undefined && isTooLargeForLambda(event)) {',
        replace: 'if (maxBytes !== undefined && isTooLargeForLambda(event)) {',
      },
      {
        guarantee:
          "a function that runs out of its own time is answered with 500, the gateway's time with 503",
        find: 'timeoutMs < state.timeoutMs ? 500 : 503',
        replace: '503',
      },
      {
        guarantee: 'a handler that throws is answered with 500 and nothing of the error',
        find: "if (invocation.kind === 'failed') {",
        replace: "if (invocation.kind === 'failed' && timeoutMs < 0) {",
        tests: [RESPONSE],
      },
    ],
  },
  {
    file: 'local/gateway/slots.ts',
    tests: [LIMITS],
    bugs: [
      {
        guarantee: 'handlers of clients that left count, up to four times the slots',
        find: ' || this.#taken + this.#left >= HANDLERS_PER_PLACE * this.#limit',
        replace: '',
      },
      {
        guarantee: 'a client that left gives its slot to others',
        find: 'this.#taken -= 1;\n        this.#left += 1;',
        replace: 'this.#left += 1;\n        this.#taken -= 0;',
      },
      {
        guarantee: 'a slot is free again when its handler has ended',
        find: 'else this.#taken -= 1;',
        replace: 'else this.#taken -= 0;',
      },
    ],
  },
  {
    file: 'local/gateway/response.ts',
    tests: [RESPONSE],
    bugs: [
      {
        guarantee: 'a status must be a whole number from 200 to 599',
        find: '!Number.isInteger(statusCode) || Number(statusCode) < 200',
        replace: 'Number(statusCode) < 200',
      },
      {
        guarantee: 'a header with a line break is refused',
        find: 'if (!HEADER_VALUE.test(String(value)))',
        replace: "if (String(value) === '')",
        survives:
          'Equivalent for the client: node refuses to write such a header, and the gateway answers 500 as well; only the words in the log differ.',
      },
      {
        guarantee: 'a response over the limit is a 500',
        find: 'if (encodedBytes > maxBytes) return tooLarge(encodedBytes);',
        replace: '',
      },
      {
        guarantee: 'a body that is said to be base64 and is not is a 500',
        find: 'return bytes.length === Math.floor((symbols * 3) / 4) ? bytes : undefined;',
        replace: 'return bytes;',
      },
      {
        guarantee: "the gateway's own 429 says when to come back",
        find: "if (status === 429) headers.push('retry-after', '1');",
        replace: '',
        tests: [RESPONSE],
      },
    ],
  },
  {
    file: 'local/gateway/event.ts',
    tests: [GATEWAY_EVENT, LIMITS],
    bugs: [
      {
        guarantee: 'a compressed body arrives as base64',
        find: "if (encoding !== undefined && encoding.toLowerCase() !== 'identity') return false;",
        replace: '',
      },
      {
        guarantee: 'an unknown content type arrives as base64',
        find: "return type.startsWith('text/') || TEXT_TYPES.has(type);",
        replace: 'return true;',
      },
      {
        guarantee: 'hop-by-hop headers end at the gateway',
        find: 'else if (!HOP_BY_HOP.has(name)) headers[name] = value;',
        replace: "else if (!HOP_BY_HOP.has(name) || name === 'connection') headers[name] = value;",
      },
      {
        guarantee: 'a body of text is measured as JSON',
        find: 'return Buffer.byteLength(JSON.stringify(event)) > MAX_EVENT_BYTES;',
        replace: 'return bodyChars > MAX_EVENT_BYTES;',
        tests: [LIMITS, GATEWAY_EVENT, 'test/bad-input/envelopes.test.ts'],
      },
    ],
  },
  {
    file: 'local/gateway/cors.ts',
    tests: [SECURITY],
    bugs: [
      {
        guarantee: 'only a page of a configured origin may read an answer',
        find: 'if (allowsAll || rules.allowedOrigins.includes(origin)) {',
        replace: 'if (true) {',
      },
    ],
  },
  {
    file: 'local/hosts.ts',
    tests: ['test/system/security/http.test.ts'],
    bugs: [
      {
        guarantee: 'a name that only ends like localhost is foreign',
        find: "name.endsWith('.localhost')",
        replace: "name.endsWith('localhost')",
      },
      {
        guarantee: 'an address of another machine is foreign',
        find: "return name.startsWith('127.');",
        replace: 'return true;',
      },
      {
        guarantee: 'a name ends where the port begins, and nothing follows the port',
        find: '(?::\\d{1,5})?$/i',
        replace: '(?::.*)?$/i',
      },
      {
        guarantee: 'a request without a host, or with a malformed one, is refused',
        find: 'if (name === undefined) return false;',
        replace: 'if (name === undefined) return true;',
      },
    ],
  },
  {
    file: 'local/access.ts',
    tests: ['test/system/security/access.test.ts'],
    bugs: [
      {
        guarantee: 'other machines call with a token, or by the word that none is wanted',
        find: 'if (!isLoopback(host) && way === undefined) {',
        replace: "if (!isLoopback(host) && way === 'no-token') {",
      },
      {
        guarantee: 'a service that is to make a token is never open before it has made it',
        find: "way === 'make-token' ? newToken() : undefined",
        replace: 'undefined',
        tests: ['test/local/made-token.test.ts'],
      },
      {
        guarantee: 'a token file that other users may use is refused',
        find: '& 0o077) !== 0',
        replace: '& 0o007) !== 0',
      },
    ],
  },
  {
    file: 'local/gateway/caller.ts',
    tests: ['test/system/security/http.test.ts'],
    bugs: [
      {
        guarantee: 'a page of a foreign origin changes nothing',
        find: 'SAFE_METHODS.has(method) || isOwnOrigin(origin, host, rules)',
        replace: "SAFE_METHODS.has(method) || method === 'POST' || isOwnOrigin(origin, host, rules)",
      },
      {
        guarantee: 'another port of this machine is a foreign origin',
        find: 'return isOfProxy || url.host ===',
        replace: "return isOfProxy || url.hostname === 'localhost' || url.host ===",
      },
      {
        guarantee: 'a page of an allowed host on another port is foreign',
        find: "url.port === '' && allowedHosts",
        replace: 'allowedHosts',
      },
      {
        guarantee: 'a token is compared as a whole',
        find: 'timingSafeEqual(digest(given), digest(token))',
        replace: 'token.startsWith(given)',
        tests: ['test/system/security/access.test.ts'],
      },
      {
        guarantee: 'a DELETE changes something',
        find: "new Set(['GET', 'HEAD', 'OPTIONS'])",
        replace: "new Set(['GET', 'HEAD', 'OPTIONS', 'DELETE'])",
      },
    ],
  },
  {
    file: 'local/aws/signature.ts',
    tests: ['test/system/security/aws.test.ts'],
    bugs: [
      {
        guarantee: 'the access key is that of this service',
        find: 'if (id !== this.#credentials.accessKeyId) {',
        replace: "if (id === '') {",
      },
      {
        guarantee: 'only a body that its client says it did not hash is not hashed',
        find: '/^(UNSIGNED-PAYLOAD|STREAMING-[A-Z0-9-]+)$/',
        replace: '/./',
      },
      {
        guarantee: 'a body whose signature is not verified yet has a limit',
        find: 'if (bytes > limit)',
        replace: 'if (bytes < 0)',
      },
      {
        guarantee: 'the signature is compared',
        find: 'if (!isRight) throw',
        replace: 'if (signature.length < 64) throw',
      },
      {
        guarantee: 'the body is the one whose hash was signed',
        find: "if (hash.digest('hex') !== claimed) {",
        replace: "if (hash.digest('hex') === '') {",
      },
      {
        guarantee: 'a body without a hash in the head is part of the signature',
        find: 'await this.#assertSignature({ request, url, claims, body: Buffer.concat(chunks) });',
        replace: '',
      },
      {
        guarantee: 'an old signature is refused',
        find: 'Math.abs(this.#now() - at)',
        replace: '(at - this.#now())',
      },
      {
        guarantee: 'a signature of the future is refused',
        find: 'Math.abs(this.#now() - at)',
        replace: '(this.#now() - at)',
      },
      {
        guarantee: 'every x-amz header is signed',
        find: "name === 'host' || name.startsWith('x-amz-')",
        replace: "name === 'host'",
      },
      {
        guarantee: 'a signature does not make up for a foreign host',
        find: 'if (!isOwnHost(host)) {',
        replace: "if (host === '') {",
      },
    ],
  },
  {
    file: 'local/aws/server.ts',
    tests: ['test/system/security/aws.test.ts'],
    bugs: [
      {
        guarantee: 'every request to the local SQS and S3 is signed',
        find: 'return signatures.verify(request.raw, request.originalUrl, body);',
        replace:
          "return request.method === 'GET' ? body : signatures.verify(request.raw, request.originalUrl, body);",
      },
    ],
  },
  {
    file: 'local/gateway/routes.ts',
    tests: [GATEWAY_EVENT],
    bugs: [
      {
        guarantee: 'a literal route goes before one with a parameter',
        find: 'patterns: patterns.sort(bySpecificity)',
        replace: 'patterns',
        tests: ['test/local/gateway/routes.test.ts'],
      },
      {
        guarantee: 'an encoded question mark ends the path',
        find: 'return end < 0 ? path : path.slice(0, end);',
        replace: 'return path;',
      },
      {
        guarantee: 'an empty parameter matches nothing',
        find: "if (value === '') return undefined;",
        replace: '',
        tests: ['test/local/gateway/routes.test.ts'],
      },
    ],
  },
  {
    file: 'local/function-clock.ts',
    tests: ['test/local/function-clock.test.ts'],
    bugs: [
      {
        guarantee: 'the time for which records wait is no function time',
        find: 'waits.waitedMs += now() - waits.sinceMs;',
        replace: 'waits.waitedMs += 0;',
      },
      {
        guarantee: 'the clock of an invocation goes on when its run has ended',
        find: '      onWait(false);\n',
        replace: '',
      },
      {
        guarantee: 'an event does not wait longer than its messages are hidden',
        find: 'Math.min(mostMs, waitedMs + waitsMs)',
        replace: '(waitedMs + waitsMs)',
      },
      {
        guarantee: 'each invocation has a clock of its own',
        find: 'work) => invocations.run({ waitedMs: 0 }, work)',
        replace: 'work) => work()',
      },
    ],
  },
  {
    file: 'local/bridge/bridge.ts',
    tests: ['test/local/bridge/bridge.test.ts'],
    bugs: [
      {
        guarantee: 'a bridge begins where a server of the original ended',
        find: "former?.lastId ?? '0'",
        replace: "'0'",
      },
      {
        guarantee: 'a group that only clients made is no server that ended',
        find: 'name === FORMER_GROUP && consumers > 0',
        replace: 'name === FORMER_GROUP',
      },
    ],
  },
  {
    file: 'local/aws/moments.ts',
    tests: ['test/local/aws/clock.test.ts'],
    bugs: [
      {
        guarantee: 'the order of messages never goes back with the clock',
        find: 'this.#last = Math.max(Date.now() - 1, this.#last);',
        replace: 'this.#last = Date.now();',
      },
      {
        guarantee: 'a clock that is set changes no wait of a message',
        find: 'if (Math.abs(measuredMs - offsetMs) > SET_MS) offsetMs = measuredMs;',
        replace: '',
      },
    ],
  },
  {
    file: 'local/bridge/mover.ts',
    tests: ['test/local/bridge/bridge.test.ts', 'test/faults/bridge.test.ts'],
    bugs: [
      {
        guarantee: 'a stream that was deleted gets its group again',
        find: "    if (isGone(error)) return this.#stream.createGroup('0').catch(() => undefined);\n",
        replace: '',
      },
      {
        guarantee: 'what a bridge before read is enqueued before what comes later',
        find: 'if (!wasHeld && this.#isHeld) this.#isUnsure = true;',
        replace: 'if (this.#isHeld) this.#isUnsure = false;',
      },
    ],
  },
  {
    file: 'local/bridge/deliveries.ts',
    tests: ['test/local/bridge/bridge.test.ts', 'test/faults/bridge.test.ts'],
    bugs: [
      {
        guarantee: 'an entry whose record the queue does not have stays in the stream',
        find: 'if (error === undefined) {\n        this.#sent',
        replace: 'if (error === undefined || error.retryable) {\n        this.#sent',
      },
      {
        guarantee: 'what another attempt cannot change goes to the dead entries',
        find: "['bad_request', 'bad_input', 'too_large']",
        replace: "['bad_request', 'bad_input']",
      },
      {
        guarantee: 'an outage is one warning',
        find: 'if (!isFailing && this.#failing++ === 0)',
        replace: 'if (this.#failing++ >= 0)',
      },
      {
        guarantee: 'an error of the settings ends the bridge',
        find: 'if (!error.retryable) {',
        replace: 'if (false) {',
      },
      {
        guarantee: 'entries of one uri are sent in their order',
        find: 'this.#turns.run(record.uri, ',
        replace: 'this.#turns.run(entry.id, ',
      },
      {
        guarantee: 'a bridge that may have been replaced sends nothing',
        find: 'if (maySend()) return true;',
        replace: 'return true;',
      },
      {
        guarantee: 'what Redis refuses stays in the stream, and stops no other entry',
        find: 'if (!isRefusal(error) && !(await',
        replace: 'if (!(await',
      },
    ],
  },
  {
    file: 'local/bridge/record.ts',
    tests: ['test/local/bridge/bridge.test.ts'],
    bugs: [
      {
        guarantee: 'of two records of one uri in the same ms the later entry wins',
        find: "sequence.padStart(SEQUENCE_DIGITS, '0')",
        replace: 'sequence',
      },
      {
        guarantee: 'a uri that is no UTF-8 is refused',
        find: '    if (!isUtf8(bytes)) throw badRequest(`${name}: expected a text in UTF-8`);\n',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/redis/stream.ts',
    tests: ['test/local/bridge/bridge.test.ts'],
    bugs: [
      {
        guarantee: 'a bridge that waits for an entry stops at once',
        find: "redis.client('UNBLOCK', id)",
        replace: "redis.client('INFO')",
      },
      {
        guarantee: 'consumers that ended are forgotten',
        find: 'if (isIdle && name !== consumer)',
        replace: 'if (false && isIdle && name !== consumer)',
      },
      {
        guarantee: 'an entry leaves the stream, not only the group',
        find: '          .xdel(stream, ...ids)\n',
        replace: '',
      },
      {
        guarantee: 'a kill leaves an entry pending or deleted, never acknowledged alone',
        find: '          .multi()\n',
        replace: '          .pipeline()\n',
      },
      {
        guarantee: 'entries that a dead consumer read are claimed',
        find: "'XAUTOCLAIM', stream, group, consumer, idleMs,",
        replace: "'XAUTOCLAIM', stream, group, consumer, idleMs + 1e9,",
      },
    ],
  },
];
