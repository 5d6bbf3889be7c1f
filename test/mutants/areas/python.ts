/** Bugs in the Python client: its retries, limits, signatures, digests, and what it takes and deletes. */
import type { Suite } from '../mutant.ts';

const UNITTEST = ['test/python/unittest.test.ts'];
const TYPESCRIPT = ['test/python/typescript.test.ts'];
/** Titles of what need not run. */
const REQUESTS_ONLY = '^test_(limits|compat)';
const LIMITS_ONLY = '^test_(requests|compat)';

export const PYTHON_CLIENT: readonly Suite[] = [
  {
    file: 'python/cluster_serving/_api.py',
    tests: UNITTEST,
    skip: REQUESTS_ONLY,
    bugs: [
      {
        guarantee: 'what is no read and no enqueue is sent again after 429 alone',
        find: 'answer.status == 429 or (is_repeatable and answer.status in (502, 503))',
        replace: 'answer.status in (429, 502, 503)',
      },
      {
        guarantee: 'a request is sent three times at most',
        find: '_TRIES = 3',
        replace: '_TRIES = 4',
      },
      {
        guarantee: 'a large result is compared with its digest',
        find: 'if "sha256" in pointer and',
        replace: 'if False and',
      },
      {
        guarantee: 'a large result is read up to the size that it says',
        find: 'size if isinstance(size, int) else self._http.max_bytes, deadline',
        replace: 'self._http.max_bytes, deadline',
      },
      {
        guarantee: 'a large result over the limit is refused before it is read',
        find: 'size > _LARGE_BYTES:',
        replace: 'size > 2**50:',
      },
      {
        guarantee: 'another address gets nothing that says who calls',
        find: 'if is_own else {}',
        replace: 'if True else {}',
      },
      {
        guarantee: 'a large result that another client took is given to one',
        find: 'if deleted.status == 404:',
        replace: 'if False:',
      },
      {
        guarantee: 'a large result whose deletion is not answered is not lost',
        find: 'except (WKRError, TimeoutError):\n                # It may',
        replace: 'except KeyError:\n                # It may',
      },
      {
        guarantee: 'a large result is deleted once it is here',
        find: 'if method == "DELETE" and isinstance(pointer.get("id"), str):',
        replace: 'if False:',
      },
    ],
  },
  {
    file: 'python/cluster_serving/_sigv4.py',
    tests: UNITTEST,
    skip: REQUESTS_ONLY,
    bugs: [
      {
        guarantee: 'the parameters are signed in their order',
        find: '"&".join(sorted(pair',
        replace: '"&".join(list(pair',
      },
      {
        guarantee: 'a path is encoded once more',
        find: 'urllib.parse.quote(route or "/", safe="/"),',
        replace: 'route or "/",',
      },
      {
        guarantee: 'the time and the token are signed',
        find: '{**headers, **added}.items()',
        replace: '{**headers, "X-Amz-Date": stamp}.items()',
      },
    ],
  },
  {
    file: 'python/cluster_serving/_access.py',
    tests: UNITTEST,
    skip: REQUESTS_ONLY,
    bugs: [
      {
        guarantee: 'a token and an API key exclude each other',
        find: 'if len(kinds) > 1 or (',
        replace: 'if (',
      },
      {
        guarantee: 'what is given outweighs the environment',
        find: '        if not is_said:\n',
        replace: '        if True:\n',
      },
      {
        guarantee: 'an address of API Gateway is asked unsigned where there are no credentials',
        find: 'if self._is_guess:\n                return {}\n            raise',
        replace: 'raise',
      },
    ],
  },
  {
    file: 'python/cluster_serving/_inputs.py',
    tests: UNITTEST,
    skip: REQUESTS_ONLY,
    bugs: [
      {
        guarantee: 'what SQS takes in no message is escaped',
        find: '.replace("\\uffff", "\\\\uffff")',
        replace: '',
      },
      {
        guarantee: 'a number that float64 does not hold is refused',
        find: 'if number == number and number != leaf:',
        replace: 'if False:',
      },
      {
        guarantee: 'a uri has 1,024 bytes at most',
        find: 'if size > 1024:',
        replace: 'if size > 1026:',
      },
      {
        guarantee: 'an image is read up to its limit',
        find: 'if len(image) > IMAGE_BYTES:',
        replace: 'if False:',
      },
      {
        guarantee: 'a whole number that JSON would round is refused',
        find: '((value > _SAFE) | (value < -_SAFE)).any()',
        replace: '(value < -_SAFE).any()',
      },
      {
        guarantee: 'a sparse tensor has whole numbers',
        find: 'if numpy.array_equal(whole, numbers):',
        replace: 'if True:',
      },
      {
        guarantee: 'infinity is refused where JSON lacks it',
        find: 'if numpy.isinf(value).any():',
        replace: 'if False:',
      },
    ],
  },
  {
    file: 'python/cluster_serving/_results.py',
    tests: UNITTEST,
    skip: REQUESTS_ONLY,
    bugs: [
      {
        guarantee: 'a number out of the range of its dtype is refused',
        find: 'if all(limits.min <= number <= limits.max for number in numbers):',
        replace: 'if True:',
      },
      {
        guarantee: 'an array has as many elements as its shape says',
        find: ' or math.prod(shape) != len(data):',
        replace: ':',
      },
    ],
  },
  {
    file: 'python/cluster_serving/client.py',
    tests: UNITTEST,
    skip: REQUESTS_ONLY,
    bugs: [
      {
        guarantee: 'take deletes only what the caller enqueued',
        find: 'if take and identity is None:',
        replace: 'if False:',
      },
      {
        guarantee: 'a large result that could not be fetched has its error in its place',
        find: '            self._left.appendleft(whole)\n',
        replace: '            self._left.appendleft(whole) if whole.result else None\n',
      },
      {
        guarantee: 'a large result that another client took is left out',
        find: 'if error.code == "not_found":\n                # Another',
        replace: 'if False:\n                # Another',
      },
      {
        guarantee: 'the dtypes are those of the model that answered',
        find: 'if isinstance(versions, list) and version in versions',
        replace: 'if True',
      },
    ],
  },
  {
    file: 'python/cluster_serving/compat.py',
    tests: UNITTEST,
    skip: REQUESTS_ONLY,
    bugs: [
      {
        guarantee: 'a large result that stays hides no other from the former client',
        find: 'if isinstance(found, Unfetched):',
        replace: 'if False:',
      },
    ],
  },
  {
    file: 'python/cluster_serving/_sqs.py',
    tests: UNITTEST,
    skip: REQUESTS_ONLY,
    bugs: [
      {
        guarantee: 'a call has ten messages at most',
        find: 'MESSAGES = 10',
        replace: 'MESSAGES = 11',
      },
      {
        guarantee: 'the messages of a call have a MiB at most',
        find: ' or total + size > _CALL_BYTES:',
        replace: ':',
      },
      {
        guarantee: 'a message of more than a MiB is refused',
        find: 'if size > _CALL_BYTES:',
        replace: 'if False:',
      },
      {
        guarantee: 'a message that the answer does not name is not in the queue',
        find: 'if entry["Id"] in taken:',
        replace: 'if entry["Id"] not in failed:',
      },
      {
        guarantee: 'a message that is refused for good is not sent again',
        find: 'if not is_last and not failure.get("SenderFault"):',
        replace: 'if not is_last:',
      },
      {
        guarantee: 'only what was refused is sent again',
        find: 'again.append(entry)\n                continue',
        replace: 'again.append(entry)\n                again = entries\n                continue',
      },
    ],
  },
  {
    file: 'python/cluster_serving/_aws.py',
    tests: UNITTEST,
    skip: REQUESTS_ONLY,
    bugs: [
      {
        guarantee: 'what is throttled is sent again',
        find: ' or (answer.status >= 400 and b"Throttl" in answer.body)',
        replace: '',
      },
    ],
  },
  {
    file: 'python/cluster_serving/_many.py',
    tests: UNITTEST,
    skip: LIMITS_ONLY,
    bugs: [
      {
        guarantee: 'after 100 errors no more records are read',
        find: '_MOST_ERRORS = 100',
        replace: '_MOST_ERRORS = 10_000',
      },
    ],
  },
  {
    file: 'python/cluster_serving/stack.py',
    tests: TYPESCRIPT,
    bugs: [
      {
        guarantee: 'how a client says who calls is what the stack says',
        find: 'auth = places.auth',
        replace: 'auth = "none"',
      },
      {
        guarantee: 'a stack that is being removed is no deployment',
        find: 'if status.startswith("DELETE_"):',
        replace: 'if False:',
      },
    ],
  },
];
