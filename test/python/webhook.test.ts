/** The tests of cluster_serving.unwrap, in Python. */
import { testModule } from './unittest.ts';

testModule('test_webhook.py');
