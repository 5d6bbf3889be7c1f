/** What the Python client sends and reads: the tests that are in Python. */
import { testModule } from './unittest.ts';

testModule('test_requests.py');
