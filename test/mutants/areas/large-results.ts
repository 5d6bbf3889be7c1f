/** Bugs in what stores, points to, answers and fetches results that are too large for Redis. */
import type { Suite } from '../mutant.ts';

const REDIS = 'test/lib/redis/large-results.test.ts';
const S3 = 'test/lib/s3/large-results.test.ts';
const PRESIGN = 'test/lib/s3/presign.test.ts';
const HTTP = 'test/lib/http/predictions.test.ts';
const SDK = 'test/sdk/large-results.test.ts';
const LOCAL = 'test/local/large-results.test.ts';

/** These files test each case twice. */
const EMBEDDED_TOO = '^the embedded Redis';

export const LARGE_RESULTS: readonly Suite[] = [
  {
    file: 'lib/pipeline/result-text.ts',
    tests: [HTTP],
    bugs: [
      {
        guarantee: 'an integer beyond 2^53 is written as a text',
        find: '!Number.isSafeInteger(Number(element))',
        replace: 'false',
      },
    ],
  },
  {
    file: 'lib/redis/result/large.ts',
    tests: [REDIS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'a record whose large result S3 does not take is delivered again, and has not failed',
        find: "return known.code === 'too_large' ? failedFields(known) : known;",
        replace: 'return failedFields(known);',
      },
      {
        guarantee: 'an old client gets an error that names the size, and no value without it',
        find: 'refusalOf(pointer.bytes)',
        replace: 'refusalOf(0)',
      },
    ],
  },
  {
    file: 'lib/redis/result/sink.ts',
    tests: [REDIS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'the message of a record that S3 did not take is returned to the queue',
        find: 'unsaved.add(id);',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/redis/result/fields.ts',
    tests: [REDIS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'a pointer names nothing but an object of a result',
        find: 'if (/^results',
        replace: 'if (pointer || /^results',
      },
      {
        guarantee: 'a result over 64 MiB fails, and is not put into S3',
        find: "throw tooLarge(bytes, 'largeResultBytes');",
        replace: 'void bytes;',
        tests: ['test/lib/redis/results.test.ts'],
      },
    ],
  },
  {
    file: 'lib/redis/scripts/take.lua',
    tests: [REDIS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'TAKE: a large result stays until it was fetched',
        find: "elseif large and fetched == '' then",
        replace: 'elseif false then',
      },
      {
        guarantee: 'TAKE: a page does not take a large result from its uri',
        find: "status == 'cancelled' or large and fetched == 'list' then",
        replace: "status == 'cancelled' then",
      },
      {
        guarantee: 'TAKE: what was fetched takes no later result',
        find: 'string.find(large, fetched, 1, true)',
        replace: 'true',
      },
    ],
  },
  {
    file: 'lib/redis/scripts/release.lua',
    tests: [REDIS],
    skip: EMBEDDED_TOO,
    bugs: [
      {
        guarantee: 'RELEASE: a large result of an interrupted drain is listed again',
        find: "if facts[1] == 'cancelled' or facts[2] then",
        replace: "if facts[1] == 'cancelled' then",
      },
    ],
  },
  {
    file: 'lib/s3/large-results.ts',
    tests: [S3],
    bugs: [
      {
        guarantee: 'every attempt has objects of its own',
        find: '+ randomUUID()',
        replace: "+ randomUUID().replaceAll(/[0-9a-f]/g, '0')",
      },
      {
        guarantee: 'an object that is not the one that was stored is refused',
        find: 'if (found.sha256 === sha256) return read.bytes;',
        replace: 'if (found.bytes === bytes) return read.bytes;',
      },
      {
        guarantee: 'JSON over the limit is not held in memory',
        find: 'if (bytes > LIMITS.largeAnswerBytes)',
        replace: 'if (bytes > 4 * LIMITS.largeAnswerBytes)',
      },
    ],
  },
  {
    file: 'lib/s3/presign.ts',
    tests: [PRESIGN],
    bugs: [
      {
        guarantee: 'a presigned URL is valid for five minutes',
        find: 'LIFE_SECONDS = 300;',
        replace: 'LIFE_SECONDS = 3_000;',
      },
      {
        guarantee: 'the bucket is in the host of S3',
        find: 'return endpoint === undefined',
        replace: 'return endpoint !== undefined',
      },
    ],
  },
  {
    file: 'lib/http/results.ts',
    tests: [HTTP],
    bugs: [
      {
        guarantee: 'nothing between keeps the address of a large result',
        find: "{ location, 'cache-control': 'no-store' }",
        replace: '{ location }',
      },
      {
        guarantee: 'a result is deleted only by the id that was fetched',
        find: 'results.take(uri, { identity, fetched, use })',
        replace: 'results.take(uri, { identity, use })',
      },
      {
        guarantee: 'who asks for bytes is sent to the bytes',
        find: 'locate(isBytes ? large.key : `${large.key}.json`)',
        replace: 'locate(`${large.key}.json`)',
      },
    ],
  },
  {
    file: 'lib/http/request.ts',
    tests: [HTTP],
    bugs: [
      {
        guarantee: 'a text that is no id takes no large result',
        find: '){3}-[0-9a-f]{12}$/.test(id)) return id;',
        replace: '){3}-[0-9a-f]{12}$/.test(id) || id) return id;',
      },
    ],
  },
  {
    file: 'sdk/http/redirect.ts',
    tests: [SDK],
    bugs: [
      {
        guarantee: 'nothing that says who calls is sent to where the API redirects',
        find: 'send: isOwn ? send : retrying(bare)',
        replace: 'send: isOwn ? send : send',
      },
      {
        guarantee: 'a large result is compared with its digest',
        find: '(await hexDigest(answer.bytes)) === sha256)',
        replace: "(await hexDigest(answer.bytes)) !== '')",
      },
      {
        guarantee: 'an API over https leads to https alone',
        find: "to.protocol !== 'https:' && to.protocol !== protocol",
        replace: "to.protocol === 'ftp:'",
      },
      {
        guarantee: 'one redirect is followed, and no second one',
        find: "redirect: 'error'",
        replace: "redirect: 'follow'",
      },
      {
        guarantee: 'no more is read than was announced',
        find: 'maxBytes: bytes, shown',
        replace: 'maxBytes: 2 * bytes, shown',
      },
      {
        guarantee: 'an error does not show the signature of an address',
        find: 'const shown = `${to.origin}${to.pathname}`;',
        replace: 'const shown = to.href;',
      },
    ],
  },
  {
    file: 'sdk/http/output-queue.ts',
    tests: [SDK],
    bugs: [
      {
        guarantee: 'a large result is deleted after it was fetched',
        find: 'taken?.large && !(await',
        replace: 'taken?.large && taken.uri === undefined && !(await',
      },
      {
        guarantee: 'a wait that takes deletes the large result that it fetched',
        find: 'fetched: found.large && idOfLarge(found.large)',
        replace: 'fetched: undefined',
      },
    ],
  },
  {
    file: 'sdk/http/source.ts',
    tests: [SDK],
    bugs: [
      {
        guarantee: 'a large result that another client took is not given a second time',
        find: "return known.code === 'not_found' ? undefined :",
        replace: 'return',
      },
      {
        guarantee: 'of two clients that fetched a large result, one gets it in a page',
        find: '(await isTaken(source, result, one.result.large)) ? { uri, result: found } : undefined',
        replace:
          '(await isTaken(source, result, one.result.large)) || found ? { uri, result: found } : undefined',
      },
    ],
  },
  {
    file: 'local/large-results.ts',
    tests: [LOCAL],
    bugs: [
      {
        guarantee: 'the route answers with objects of large results of its job alone',
        find: 'if (!/^[0-9a-f-]{36}(\\.json)?$/.test(name)) throw gone();',
        replace: '',
      },
      {
        guarantee: 'what may still be read is not removed',
        find: 'modifiedAt < before',
        replace: 'modifiedAt > 0',
      },
    ],
  },
];
