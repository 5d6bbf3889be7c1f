/** Whether pictures keep their own size. */
import { messageOf, messagesOf } from '../wire/message.ts';
import { dimsOf, readOnnx } from './facts.ts';

/** Whether an input of pictures leaves height and width open. */
export function takesPicturesOfAnySize(file: string): boolean {
  try {
    const graph = messageOf(readOnnx(file), 'graph');
    return (graph ? messagesOf(graph, 'inputs') : []).some((input) => {
      const dims = dimsOf(input);
      return dims.length === 4 && dims[2] === 0 && (dims[3] === 0 || dims[1] === 0);
    });
  } catch {
    // A damaged file is reported by its opening.
    return false;
  }
}
