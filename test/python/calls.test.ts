/** What calls of the Python client are made of, without a service. */
import { testModule } from './unittest.ts';

testModule('test_calls.py');
