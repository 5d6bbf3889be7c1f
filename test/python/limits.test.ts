/** Every call of the Python client ends: the tests that are in Python. */
import { testModule } from './unittest.ts';

testModule('test_limits.py');
