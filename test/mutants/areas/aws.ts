/** Bugs in lib/s3, lib/registry and lib/queue: checksums, sizes, conditions, partial failures. */
import type { Suite } from '../mutant.ts';

const PAYLOADS = 'test/lib/s3/payloads.test.ts';
const PUBLISH = 'test/lib/registry/publish.test.ts';
const SOURCE = 'test/security/model-source.test.ts';
const POINTERS = 'test/security/pointers.test.ts';
const SENDER = 'test/lib/queue/sender.test.ts';
const FOLDER = 'test/faults/swap/folder.test.ts';
const RESUME = 'test/lib/registry/resume.test.ts';
const ONNX_FILE = 'test/lib/registry/onnx-file.test.ts';
const DLQ = 'test/cli/dlq/dlq.test.ts';

export const AWS: readonly Suite[] = [
  {
    file: 'lib/queue/sender.ts',
    tests: [SENDER],
    bugs: [
      {
        guarantee: 'a call holds at most 1 MiB',
        find: '(count > 0 && bytes + pending.bytes > LIMITS.messageBytes)',
        replace: '(count > 0 && bytes > LIMITS.messageBytes)',
      },
      {
        guarantee: 'a call of exactly 1 MiB is one call',
        find: 'bytes + pending.bytes > LIMITS.messageBytes',
        replace: 'bytes + pending.bytes >= LIMITS.messageBytes',
      },
      {
        guarantee: 'a message of more than 1 MiB does not stop the queue',
        find: '(count > 0 && bytes + pending.bytes > LIMITS.messageBytes)',
        replace: 'bytes + pending.bytes > LIMITS.messageBytes',
      },
      {
        guarantee: 'a message of the queue is counted in bytes',
        find: 'Buffer.byteLength(body) + attributesBytes(attributes)',
        replace: 'body.length + attributesBytes(attributes)',
      },
      {
        guarantee: 'a refused entry of a call that succeeded is not reported as sent',
        find: 'if (taken.has(i)) pending.resolve();',
        replace: 'if (!refused.has(i) || taken.has(i)) pending.resolve();',
        tests: [SENDER],
      },
      {
        guarantee: 'an entry that is refused for our own fault is not sent again',
        find: 'else if (SenderFault || ++pending.attempts >= MAX_ATTEMPTS) {',
        replace: 'else if (++pending.attempts >= MAX_ATTEMPTS) {',
      },
      {
        guarantee: 'an entry that is refused again and again rejects in the end',
        find: 'else if (SenderFault || ++pending.attempts >= MAX_ATTEMPTS) {',
        replace: 'else if (SenderFault || ++pending.attempts >= 100 * MAX_ATTEMPTS) {',
      },
      {
        guarantee: 'an entry that is refused for a passing reason is sent again',
        find: 'MAX_ATTEMPTS = 4',
        replace: 'MAX_ATTEMPTS = 1',
      },
      {
        guarantee: 'an entry that is sent again is sent alone',
        find: 'return again;',
        replace: 'return again.length > 0 ? [...batch] : [];',
      },
      {
        guarantee: 'a call that fails rejects every message of it',
        find: 'for (const pending of batch) pending.reject(this.#unavailable((error as Error).message, error));',
        replace: 'batch[0]?.reject(this.#unavailable((error as Error).message, error));',
        tests: [SENDER],
      },
      {
        guarantee: 'at most 16 calls are in flight',
        find: ' && this.#calls < PARALLEL_CALLS',
        replace: '',
        tests: [SENDER],
      },
      {
        guarantee: 'what waits is sent when a call has ended',
        find: 'this.#calls--;\n        this.#pump();',
        replace: 'this.#calls--;',
        tests: [SENDER],
      },
    ],
  },
  {
    file: 'lib/codecs/pointer.ts',
    tests: [POINTERS, PAYLOADS, 'test/lib/codecs/message.test.ts'],
    bugs: [
      {
        guarantee: 'a pointer leads only to the payloads of its own job',
        find: 'key.startsWith(prefix) && ',
        replace: '',
      },
      {
        guarantee: 'a pointer leads to no sub-folder and to no parent',
        find: '/^[\\w-]{1,80}$/.test(key.slice(prefix.length))',
        replace: 'key.length > prefix.length',
      },
      {
        guarantee: 'a pointer without a good uri is none',
        find: "const uri = assertUri(parsed['uri']);",
        replace: "const uri = String(parsed['uri']);",
      },
      {
        guarantee: 'a size that makes no sense is as good as none',
        find: 'Number(bytes) <= LIMITS.payloadBytes;',
        replace: 'Number(bytes) <= 2 ** 53;',
      },
      {
        guarantee: 'a large body is not parsed to look for a pointer',
        find: 'body.length > POINTER_CHARACTERS || ',
        replace: '',
        tests: ['test/lib/codecs/message.test.ts'],
      },
    ],
  },
  {
    file: 'lib/s3/payloads.ts',
    tests: [PAYLOADS, POINTERS],
    bugs: [
      {
        guarantee: 'a record over 32 MiB is refused',
        find: 'if (bytes > LIMITS.payloadBytes) throw',
        replace: 'if (bytes > 2 * LIMITS.payloadBytes) throw',
        tests: [PAYLOADS],
      },
      {
        guarantee: 'never more than 64 MiB of payloads are in memory',
        find: 'TOGETHER_BYTES = 2 * LIMITS.payloadBytes',
        replace: 'TOGETHER_BYTES = 3 * LIMITS.payloadBytes',
      },
      {
        guarantee: 'sixteen payloads at most are asked for at a time',
        find: 'MOST_READS = 16',
        replace: 'MOST_READS = 17',
      },
      {
        guarantee: 'a payload is read up to what its pointer says',
        find: 'if (bytes.byteLength > most) return',
        replace: 'if (bytes.byteLength > 2 * most) return',
      },
      {
        guarantee: 'no more than that is asked of S3',
        find: 'most + 1)',
        replace: 'LIMITS.payloadBytes * 4)',
      },
      {
        guarantee: 'a payload that is not there is final',
        find: "const isGone = (error as Error).name === 'NoSuchKey';",
        replace: 'const isGone = false;',
      },
      {
        guarantee: 'a payload that cannot be read now is read again later',
        find: "const isGone = (error as Error).name === 'NoSuchKey';",
        replace: 'const isGone = true;',
      },
      {
        guarantee: 'the error of a payload carries the uri of its record',
        find: "unavailable('read', error, uri)",
        replace: "unavailable('read', error)",
      },
      {
        guarantee: 'what a payload really takes counts, once it is there',
        find: 'bytes += payload.bytes - most;',
        replace: 'bytes += 0;',
      },
    ],
  },
  {
    file: 'lib/s3/signed-read.ts',
    tests: ['test/lib/s3/signed-read.test.ts'],
    bugs: [
      {
        guarantee: 'what is no part of the object is left to the SDK',
        find: 'if (response.statusCode !== 206) {',
        replace: 'if ((response.statusCode ?? 0) >= 300) {',
      },
      {
        guarantee: 'a part is no longer than was asked for',
        find: 'if (bytes > most) fail',
        replace: 'if (bytes > 2 * most) fail',
      },
      {
        guarantee: 'an error of what takes the bytes is thrown, and the SDK is not asked',
        find: 'if (error instanceof WriterError) throw error.cause;',
        replace: '',
      },
      {
        guarantee: 'a part is of the version that was asked for',
        find: "...(etag === undefined ? {} : { 'if-match': etag }),",
        replace: '',
      },
      {
        guarantee: 'a read by a connection that S3 closed is asked again',
        find: 'if (!sent.reusedSocket) return undefined;',
        replace: 'return undefined;',
      },
      {
        guarantee: 'names that would have to be escaped are left to the SDK',
        find: '|| !PLAIN_KEY.test(key)',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/s3/conditional.ts',
    tests: [PUBLISH],
    bugs: [
      {
        guarantee: 'the pointer is replaced only if no other push was first',
        find: "...(etag === undefined ? { IfNoneMatch: '*' } : { IfMatch: etag }),",
        replace: '',
      },
      {
        guarantee: 'a refusal is no error',
        find: "if (status !== 412 && status !== 409 && name !== 'NoSuchKey') throw error;",
        replace: 'throw error;',
      },
      {
        guarantee: 'a write whose answer got lost is no conflict with itself',
        find: 'return (await getTaggedText(s3, { bucket, key }))?.text === text;',
        replace: 'return false;',
      },
    ],
  },
  {
    file: 'lib/s3/objects.ts',
    tests: ['test/lib/s3/objects.test.ts'],
    bugs: [
      {
        guarantee: 'every range names the version it belongs to',
        find: '...(etag ? { IfMatch: etag } : {}),',
        replace: '',
      },
      {
        guarantee: 'a body that breaks off is asked for once more',
        find: 'if (!isWritten || attempt === 2 || abortSignal.aborted) throw error;',
        replace: 'throw error;',
      },
      {
        guarantee: 'a text is read up to 1 MiB',
        find: '{ start: 0, end: TEXT_BYTES }',
        replace: '{ start: 0, end: 1000 * TEXT_BYTES }',
      },
      {
        guarantee: 'an empty object is an empty text',
        find: "if (name !== 'InvalidRange') throw error;",
        replace: 'throw error;',
      },
      {
        guarantee: 'a missing object is an answer and no error',
        find: "if (name === 'NoSuchKey') return undefined;",
        replace: '',
      },
      {
        guarantee: 'a read has a time limit of 8 s',
        find: 'READ_MS = 8_000',
        replace: 'READ_MS = 800_000',
      },
    ],
  },
  {
    file: 'lib/s3/pages.ts',
    tests: ['test/lib/s3/pages.test.ts'],
    bugs: [
      {
        guarantee: 'objects are deleted a thousand to a call',
        find: 'KEYS_PER_CALL = 1_000',
        replace: 'KEYS_PER_CALL = 1_001',
      },
      {
        guarantee: 'a deletion that S3 refused is an error',
        find: 'if (first) throw new Error',
        replace: 'if (!first && Errors.length > 0) throw new Error',
      },
      {
        guarantee: 'a listing goes on behind its last key',
        find: 'last = objects.at(-1)?.key;',
        replace: 'last = undefined;',
      },
      {
        guarantee: 'sixteen objects are read at a time',
        find: 'READS_AT_ONCE = 16',
        replace: 'READS_AT_ONCE = 1_000',
      },
    ],
  },
  {
    file: 'lib/s3/upload.ts',
    tests: [PUBLISH],
    bugs: [
      {
        guarantee: 'a file that changed while it was uploaded is refused',
        find: "if (hash.digest('hex') === sha256) return;",
        replace: 'return;',
      },
      {
        guarantee: 'what S3 holds after an upload has the right size',
        find: 'if (ContentLength !== file.bytes) throw',
        replace: 'if (ContentLength === -1) throw',
      },
      {
        guarantee: 'what S3 holds after an upload has the right checksum',
        find: 'if (stored !== undefined) throw differs',
        replace: 'if (stored === undefined) throw differs',
      },
      {
        guarantee: 'where S3 keeps no checksums, its content is read and compared',
        find: 'if (actual !== file.sha256) throw differs',
        replace: 'if (actual === "") throw differs',
      },
      {
        guarantee: 'a part that S3 refuses ends the upload at once',
        find: 'if (attempt === TRIES || isRefusal(error)) throw error;',
        replace: 'if (attempt === TRIES) throw error;',
      },
      {
        guarantee: 'a part that hangs, or fails for a passing reason, is sent again',
        find: 'if (attempt === TRIES || isRefusal(error)) throw error;',
        replace: 'throw error;',
        tests: [PUBLISH],
      },
      {
        guarantee: 'an upload ends with its signal',
        find: 'const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;',
        replace: 'const either = stop.signal;',
      },
    ],
  },
  {
    file: 'infra/build/joined.ts',
    tests: ['test/system/bundles.test.ts'],
    bugs: [
      {
        guarantee: 'damaged code of a function is never run',
        find: 'return digest.equals(file.subarray(-32)) ? cache : undefined;',
        replace: 'return cache;',
      },
    ],
  },
  {
    file: 'infra/build/code-cache.ts',
    tests: ['test/system/bundles.test.ts'],
    bugs: [
      {
        guarantee: 'V8 takes the code of a function with the flags of Lambda',
        find: "'--expose-gc', ",
        replace: '',
      },
      {
        guarantee: 'the same source gives the same code',
        find: "'--random-seed=1'",
        replace: "'--expose-gc'",
      },
    ],
  },
  {
    file: 'lib/registry/download.ts',
    tests: [SOURCE, PUBLISH],
    bugs: [
      {
        guarantee: 'a pointer needs a sha256 for every file',
        find: "if (typeof sha256 !== 'string' || !SHA256.test(sha256)) throw new Error('sha256');",
        replace: "if (typeof sha256 !== 'string') throw new Error('sha256');",
      },
      {
        guarantee: 'the path of a model file leads nowhere but down',
        find: 'MODEL_PATH = /^(?!.*\\.\\.)',
        replace: 'MODEL_PATH = /^',
      },
      {
        guarantee: 'the path of a model file is not absolute',
        find: '\\w[\\w./ -]{0,255}$/',
        replace: '[\\w/][\\w./ -]{0,255}$/',
      },
      {
        guarantee: 'a file is named once in a pointer',
        find: ' || seen.has(path)',
        replace: '',
      },
      {
        guarantee: 'a version is no path',
        find: "if (!isVersion(version)) throw new Error('version');",
        replace: '',
      },
      {
        guarantee: 'a version is not named like a download under way',
        find: 'VERSION = /^(?!.*\\.partial-)',
        replace: 'VERSION = /^',
      },
      {
        guarantee: 'a pointer has at most 1,000 files',
        find: 'files.length > MAX_MODEL_FILES)',
        replace: 'files.length > 100 * MAX_MODEL_FILES)',
        tests: [SOURCE],
      },
      {
        guarantee: 'a negative size is refused',
        find: "if (!Number.isSafeInteger(bytes) || (bytes as number) < 0) throw new Error('bytes');",
        replace: "if (typeof bytes !== 'number') throw new Error('bytes');",
      },
      {
        guarantee: 'two models in one prefix are refused',
        find: 'if (models.length !== 1 && withoutFiles === undefined) {\n    const found = models.map(({ key })',
        replace:
          'if (models.length < 1 && withoutFiles === undefined) {\n    const found = models.map(({ key })',
        tests: ['test/lib/registry/download.test.ts'],
      },
      {
        guarantee: 'a folder that is there is compared to the last byte before it is used',
        find: 'if (await isWhole(folder, files)) return folder;',
        replace: 'if (await stat(folder).then(() => true, () => false)) return folder;',
        tests: [FOLDER],
      },
      {
        guarantee: 'what only a size could be compared of is not taken from another process',
        find: 'if (!isOwn)',
        replace: 'if (false)',
        tests: [RESUME],
      },
      {
        guarantee: 'the version of a copied file changes with its content',
        find: 'files.map((file) => file.path + file.etag).join()',
        replace: 'files.map((file) => file.path).join()',
        tests: ['test/lib/registry/download.test.ts'],
      },
    ],
  },
  {
    file: 'lib/registry/model-file.ts',
    tests: [SOURCE, PUBLISH],
    bugs: [
      {
        guarantee: 'the checksum of a model is compared before it is opened',
        find: 'if (actual !== expected) {',
        replace: 'if (actual === "") {',
      },
      {
        guarantee: 'the size of a model file is compared',
        find: 'if (size !== file.bytes) {',
        replace: 'if (size === -1) {',
        tests: [SOURCE, 'test/faults/swap/torn.test.ts', FOLDER],
      },
      {
        guarantee: 'a download that is continued names the object that it began with',
        find: 'partial.noteEtag(place, etag);',
        replace: ';',
        tests: [RESUME],
      },
      {
        guarantee: 'an object that was replaced is read from its beginning',
        find: 'partial.forget(place);\n      return readParts',
        replace: 'return readParts',
        tests: [RESUME],
      },
    ],
  },
  {
    file: 'lib/registry/partial.ts',
    tests: [RESUME],
    bugs: [
      {
        guarantee: 'a download goes on at the byte that it had reached',
        find: 'this.#write([file, part, bytes]);',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/registry/download-folder.ts',
    tests: [FOLDER, SOURCE],
    bugs: [
      {
        guarantee: 'what is not in use is removed',
        find: "if (!keep.has(name.replace(/\\.partial-\\d+-\\d+$/, '')) && !isUnderWay(name)) {",
        replace: 'if (false) {',
      },
      {
        guarantee: 'what a living process downloads is not removed',
        find: '&& !isUnderWay(name)) {',
        replace: ') {',
      },
      {
        guarantee: 'what a dead process left is removed',
        find: 'return pid > 0 && isAlive(pid);',
        replace: 'return pid > 0;',
      },
      {
        guarantee: 'a download that failed leaves nothing',
        find: 'else await rm(path, { recursive: true, force: true });',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/registry/pointer.ts',
    tests: [PUBLISH],
    bugs: [
      {
        guarantee:
          'the pointer is replaced only if no other push was first, also where the store keeps no condition',
        find: 'const isSame = now.etag === current.etag;',
        replace: 'const isSame = true;',
      },
      {
        guarantee: 'a refused promotion is a conflict',
        find: 'if (written) return;',
        replace: 'return;',
      },
      {
        guarantee: 'the pointer is written on the condition of what was read',
        find: 'text, current.etag))',
        replace: 'text, now.etag))',
        survives: 'Equivalent: it is written only where both tags are the same.',
      },
      {
        guarantee: 'current.json keeps the last 50 turns, so that it stays below 1 MiB',
        find: 'history.slice(-MAX_HISTORY)',
        replace: 'history',
      },
      {
        guarantee: 'a pointer that makes no sense can be replaced',
        find: 'return { etag: tagged.etag, version: undefined, history: [] };',
        replace: "throw new Error('unreadable');",
      },
    ],
  },
  {
    file: 'lib/registry/publish.ts',
    tests: [PUBLISH, SOURCE],
    bugs: [
      {
        guarantee: 'a link is not published',
        find: 'if (entry.isSymbolicLink()) {',
        replace: 'if (false) {',
        tests: [SOURCE],
      },
      {
        guarantee: 'hidden files stay at home',
        find: '/(?:^|\\/)\\./.test(path)',
        replace: '/^\\./.test(path)',
        tests: [SOURCE],
      },
      {
        guarantee: 'a file that no pointer could name is refused',
        find: 'if (!isModelPath(path)) {',
        replace: 'if (false) {',
        tests: [SOURCE],
      },
      {
        guarantee: 'a directory of more than 1,000 files is refused',
        find: 'if (paths.length > MAX_MODEL_FILES) {',
        replace: 'if (paths.length > 1_000 * MAX_MODEL_FILES) {',
        tests: [SOURCE],
      },
      {
        guarantee: 'a version that others promote during an upload is not replaced',
        find: 'if (activate) await promoteUpload(s3, location, current,',
        replace: 'if (activate) await promoteUpload(s3, location, await readCurrent(s3, location),',
      },
      {
        guarantee: 'activate: false only uploads',
        find: 'if (activate) await promoteUpload(',
        replace: 'await promoteUpload(',
      },
      {
        guarantee: 'a file that is there in its right size is passed over',
        find: 'if ((await sizeOf(s3, address)) === bytes) {',
        replace: 'if ((await sizeOf(s3, address)) === -1) {',
      },
      {
        guarantee: 'a file that is there in another size is uploaded again',
        find: 'if ((await sizeOf(s3, address)) === bytes) {',
        replace: 'if ((await sizeOf(s3, address)) !== undefined) {',
        tests: [PUBLISH, 'test/faults/swap/torn.test.ts'],
      },
      {
        guarantee: 'the same model is the same version',
        find: 'return paths.sort();',
        replace: 'return paths.sort(() => Math.random() - 0.5);',
        tests: [PUBLISH, SOURCE],
      },
    ],
  },
  {
    file: 'lib/registry/versions.ts',
    tests: [PUBLISH],
    bugs: [
      {
        guarantee: 'a prune never deletes the version that serves',
        find: 'versions.filter(({ serves }) => !serves)',
        replace: 'versions.filter(() => true)',
      },
      {
        guarantee: 'a prune keeps as many as were asked for, the one that serves among them',
        find: 'versions.length > others.length ? keep - 1 : keep',
        replace: 'keep',
      },
      {
        guarantee: 'a version that a rollback has chosen meanwhile is not deleted',
        find: 'if ((await readCurrent(s3, location)).version === version) {',
        replace: "if (version === '') {",
        tests: [PUBLISH],
      },
      {
        guarantee: 'the manifest of a version that stays is written again',
        find: 'if (manifest) await writeManifest(s3, location, manifest);',
        replace: '',
        tests: [PUBLISH],
      },
      {
        guarantee: 'no push goes back to a version that is being deleted',
        find: 'await removeObjects(s3, bucket, [manifestKey(location, version)]);',
        replace: '',
      },
      {
        guarantee: 'a rollback finds all files of the version first',
        find: 'if (found === bytes) return;',
        replace: 'return;',
      },
      {
        guarantee: 'a rollback to a version with a cut file changes nothing',
        find: 'if (found === bytes) return;',
        replace: 'if (found !== undefined) return;',
      },
      {
        guarantee: 'a rollback without a name goes to the version before',
        find: 'history.findLast((one) => one.version !== version)?.version',
        replace: 'history.find((one) => one.version !== version)?.version',
      },
      {
        guarantee: 'a rollback takes off what it goes back behind',
        find: 'if (place >= 0) return history.slice(0, place + 1);',
        replace: '',
      },
      {
        guarantee: 'a torn version has no manifest and cannot be chosen',
        find: 'if (!manifest) {\n    const others',
        replace: 'if (manifest === null) {\n    const others',
        tests: [PUBLISH],
      },
      {
        guarantee: 'a manifest names whole files',
        find: 'if (!isWhole || manifest.files.length === 0) return undefined;',
        replace: '',
        tests: [PUBLISH],
      },
    ],
  },
  {
    file: 'lib/registry/onnx-file.ts',
    tests: [ONNX_FILE],
    bugs: [
      {
        guarantee: 'two models in one directory are refused',
        find: 'if (models.length !== 1) {',
        replace: 'if (models.length === 0) {',
      },
      {
        guarantee: 'a Git LFS pointer is not taken for a model',
        find: "if (text.startsWith('version https://git-lfs.github.com/')) {",
        replace: "if (text.startsWith('version https://git-lfs.example/')) {",
      },
      {
        guarantee: 'an error page is not taken for a model',
        find: '/^(<!doctype html|<html|<head)/i.test(text)',
        replace: '/^(<!doctype html)/.test(text)',
      },
      {
        guarantee: 'an empty file is not taken for a model',
        find: "if (head.length === 0) return 'an empty file';",
        replace: '',
      },
    ],
  },
  {
    file: 'lib/s3/dead-letters.ts',
    tests: ['test/lib/s3/dead-letters.test.ts', DLQ],
    bugs: [
      {
        guarantee: 'an id that is none names no other file',
        find: 'if (ID.test(id)) return id;',
        replace: 'return id;',
      },
      {
        guarantee: 'a listing reads the first 4 kB of each file',
        find: 'const HEAD_BYTES = 4_096;',
        replace: 'const HEAD_BYTES = 4_096_000;',
      },
      {
        guarantee: 'a purge removes the payloads of what it purges',
        find: 'return decodePointer(message.body, this.#job)?.key ?? [];',
        replace: 'return [];',
      },
    ],
  },
];
