/** A bridge, as `cluster-serving bridge` opens it. */
import { startBridge } from '../../../local/bridge/bridge.ts';
import { Queue } from '../../../sdk/queue.ts';

export { Queue, startBridge };
