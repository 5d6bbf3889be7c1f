/** The parts of the Python client's calls, without a service. */
import { testModule } from './unittest.ts';

testModule('test_calls.py');
