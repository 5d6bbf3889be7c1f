/** Requests and answers of the Python client: the tests that are in Python. */
import { testModule } from './unittest.ts';

testModule('test_requests.py');
