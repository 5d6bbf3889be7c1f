/** A model that runs as many rounds as its input says: 1 is quick, 1e15 never ends. */
import { GraphBuilder } from '../../onnx-import/graph/builder.ts';
import type { Value } from '../../onnx-import/graph/value.ts';
import { onnxBytes } from '../../onnx-import/onnx/write.ts';

/** The rounds of a record that ends, and of one that does not. */
export const QUICK = 1;
export const ENDLESS = 1e15;

/** rounds: float64 [N] -> y: float64 [N], the rounds that the first row ran plus each row's own number. */
export function loopModel(): Uint8Array {
  return withLoop((graph, rounds) =>
    graph.one('Cast', [graph.one('ReduceMax', [rounds], { keepdims: 0 })], { to: INT64 }),
  );
}

/** Like loopModel, but a record ends at once unless it is ENDLESS, so made-up ones do not take long either. */
export function deadlyModel(): Uint8Array {
  return withLoop((graph, rounds) => {
    const most = graph.one('Cast', [graph.one('ReduceMax', [rounds], { keepdims: 0 })], { to: INT64 });
    const endless = graph.scalar('int64', ENDLESS);
    return graph.one('Mul', [graph.one('Div', [most, endless]), endless]);
  });
}

/** Never ends, for any input, even the zeros with which a model is warmed up. */
export function endlessModel(): Uint8Array {
  return withLoop((graph, rounds) => {
    const some = graph.one('Cast', [graph.one('ReduceMax', [rounds], { keepdims: 0 })], { to: INT64 });
    return graph.one('Max', [some, graph.scalar('int64', ENDLESS)]);
  });
}

const INT64 = 7;

function withLoop(tripCount: (graph: GraphBuilder, rounds: Value) => Value): Uint8Array {
  const graph = new GraphBuilder();
  const rounds = graph.input('rounds', 'float64', ['N']);
  const most = tripCount(graph, rounds);
  const body = graph.body();
  body.input('round', 'int64', []);
  const goOn = body.input('go_on', 'bool', []);
  const sum = body.input('sum', 'float64', []);
  body.output('go_on_out', goOn);
  body.output('sum_out', body.one('Add', [sum, body.scalar('float64', 1)]));
  const [total] = graph.add(
    'Loop',
    [most, graph.constant({ dtype: 'bool', shape: [], data: Uint8Array.of(1) }), graph.scalar('float64', 0)],
    { body: { body: body.finish() } },
    { results: [{ dtype: 'float64', shape: [] }] },
  );
  graph.output('y', graph.one('Add', [rounds, graph.one('Mul', [total, graph.scalar('float64', 0)])]));
  return onnxBytes(graph.finish());
}
