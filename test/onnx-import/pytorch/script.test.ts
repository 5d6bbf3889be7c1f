/** TorchScript archives that a writer here makes: code, weights, aliasing, control flow, free sizes, refusals. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { convertScript, floats, runScript } from '../support/pytorch/run.ts';

const X = floats([2, 3], [1, -2, 3, -4, 5, -6]);

const RUNS: readonly (readonly [what: string, forward: string, expected: readonly number[]])[] = [
  ['an operator with its omitted defaults', 'return torch.add(x, x)', [2, -4, 6, -8, 10, -12]],
  ['alpha by name', 'return torch.add(x, x, alpha=2)', [3, -6, 9, -12, 15, -18]],
  [
    'a loop that is unrolled',
    'y = x\nfor i in range(3):\n  y0 = torch.mul(y, 2)\n  y = y0\nreturn y',
    [8, -16, 24, -32, 40, -48],
  ],
  [
    'an if that the shape decides',
    'if torch.eq(torch.size(x, 1), 3):\n  y = torch.neg(x)\nelse:\n  y = x\nreturn y',
    [-1, 2, -3, 4, -5, 6],
  ],
  [
    'an if that the data decide',
    'if bool(torch.gt(torch.sum(x), 0)):\n  y = torch.mul(x, 2)\nelse:\n  y = torch.neg(x)\nreturn y',
    [-1, 2, -3, 4, -5, 6],
  ],
  [
    'integer division rounds down',
    'n = torch.floordiv(-7, 2)\nreturn torch.mul(torch.ones_like(x), n)',
    [-4, -4, -4, -4, -4, -4],
  ],
  [
    'a true division of integers is a float',
    'y = torch.to(x, 4)\nreturn torch.div(y, 2)',
    [0.5, -1, 1.5, -2, 2.5, -3],
  ],
  [
    'a write to a view reaches its base',
    'y = torch.clone(x)\nv = torch.select(y, 1, 0)\n_0 = torch.add_(v, 10)\nreturn y',
    [11, -2, 3, 6, 5, -6],
  ],
  [
    'a write to the base reaches its views',
    'y = torch.clone(x)\nv = torch.slice(y, 1, 1)\n_0 = torch.mul_(y, 2)\nreturn v',
    [-4, 6, 10, -12],
  ],
  [
    'views of views',
    'y = torch.clone(x)\nv = torch.slice(torch.transpose(y, 0, 1), 0, 1, 3)\n_0 = torch.fill_(torch.select(v, 1, 0), 7)\nreturn y',
    [1, 7, 7, -4, 5, -6],
  ],
  [
    'a view through view()',
    'y = torch.clone(x)\nv = torch.view(y, [3, 2])\n_0 = torch.copy_(torch.select(v, 0, 1), torch.select(v, 0, 0))\nreturn y',
    [1, -2, 1, -2, 5, -6],
  ],
  [
    'a name that is bound again is no write',
    'y = torch.clone(x)\nv = torch.select(y, 1, 0)\ny0 = torch.add(y, 1)\n_0 = torch.add_(v, 10)\nreturn y0',
    [2, -1, 4, -3, 6, -5],
  ],
  [
    'lists',
    'l = annotate(List[Tensor], [])\n_0 = torch.append(l, x)\n_1 = torch.append(l, torch.neg(x))\nreturn torch.cat(l, 1)',
    [1, -2, 3, -1, 2, -3, -4, 5, -6, 4, -5, 6],
  ],
];
for (const [what, forward, expected] of RUNS) {
  test(what, async (t) => {
    const [result] = await runScript(t, { forward }, X);
    assert.deepEqual(result, expected);
  });
}

test('a check of values that raises is left out, whichever branch it is, and said', async (t) => {
  for (const [check, line] of [
    ['if bool(torch.gt(torch.sum(x), 0)):\n  pass\nelse:\n  ops.prim.RaiseException("no")', 'pass first'],
    ['if bool(torch.gt(torch.sum(x), 0)):\n  ops.prim.RaiseException("no")\nelse:\n  pass', 'raise first'],
  ] as const) {
    const forward = `${check}\nreturn torch.neg(x)`;
    const [result] = await runScript(t, { forward }, X);
    assert.deepEqual(result, [-1, 2, -3, 4, -5, 6], line);
    const { notes } = await convertScript(t, { forward }, { inputShapes: { x: [2, 3] } });
    assert.match(notes.join(), /the check of values in .*:\d+ is left out/, line);
  }
});

test('weights may be views with strides and an offset', async (t) => {
  const weights = { w: { shape: [2, 3], strides: [1, 2], offset: 1, data: [9, 1, 2, 3, 4, 5, 6] } };
  const [result] = await runScript(
    t,
    { forward: 'w = self.w\nreturn torch.mul(x, w)', weights },
    floats([2, 3], [1, 1, 1, 1, 1, 1]),
  );
  assert.deepEqual(result, [1, 3, 5, 2, 4, 6]);
});

test('the batch is free, and traced sizes follow it', async (t) => {
  const forward =
    'n = ops.prim.NumToTensor(torch.size(x, 0))\nm = int(torch.mul(n, 3))\nreturn torch.view(x, [m])';
  const { graph } = await convertScript(t, { forward }, { inputShapes: { x: [1, 3] } });
  assert.deepEqual(graph.inputs[0]?.shape, ['N', 3]);
  assert.deepEqual(graph.outputs[0]?.value.shape, ['3*N']);
});

test('a size that the code needs fixes the batch, and the import says so', async (t) => {
  const forward = 'y = x\nfor i in range(torch.size(x, 0)):\n  y0 = torch.add(y, 1)\n  y = y0\nreturn y';
  const { graph, notes } = await convertScript(t, { forward }, { inputShapes: { x: [2, 3] } });
  assert.deepEqual(graph.inputs[0]?.shape, [2, 3]);
  assert.match(notes.join(), /the batch is fixed/);
});

test('an input that is an index is int64', async (t) => {
  const weights = { w: { shape: [4, 2], data: [0, 1, 2, 3, 4, 5, 6, 7] } };
  const forward = 'w = self.w\nreturn torch.embedding(w, x)';
  const { graph } = await convertScript(t, { forward, weights }, { inputShapes: { x: [1, 3] } });
  assert.equal(graph.inputs[0]?.dtype, 'int64');
});

test('a dict gives named outputs, None is left out', async (t) => {
  const forward = 'return {"a": x, "b": (torch.neg(x), None)}';
  const { graph, notes } = await convertScript(t, { forward }, { inputShapes: { x: [1, 3] } });
  assert.deepEqual(
    graph.outputs.map(({ name }) => name),
    ['a', 'b_0'],
  );
  assert.match(notes.join(), /"b_1" is None/);
});

const REFUSED: readonly (readonly [what: string, forward: string, message: RegExp])[] = [
  [
    'every operator that is not known',
    'y = torch.fancy(x)\nreturn torch.plain(y)',
    /2 nodes cannot be converted:\n {2}fancy \(node "M.forward:\d+"\): is not supported\n {2}plain/,
  ],
  [
    'an argument that no signature has',
    'return torch.relu(x, 3)',
    /relu .*is not supported with \(a tensor, an int\); known is relu\(Tensor x\)/,
  ],
  [
    'training mode',
    'return torch.dropout(x, 0.5, True)',
    /training mode; call model\.eval\(\) before saving/,
  ],
  ['random numbers', 'return torch.rand_like(x)', /draws random numbers/],
  [
    'a loop that the data count',
    'y = x\nfor i in range(int(torch.sum(x))):\n  y = torch.add(y, 1)\nreturn y',
    /a loop whose count the data decide/,
  ],
  [
    'a result of a size that the data decide',
    'return torch.nonzero(x)',
    /as many elements as the data decide/,
  ],
  [
    'a write to what may be a copy, where the other is read',
    'y = torch.clone(x)\nz = torch.contiguous(y)\n_0 = torch.add_(z, 1)\nreturn torch.neg(y)',
    /may have been written by add_: torch decides by strides/,
  ],
  [
    'a write to an expanded view',
    'y = torch.clone(x)\nz = torch.expand(torch.slice(y, 1, 0, 1), [-1, 3])\n_0 = torch.add_(z, 1)\nreturn y',
    /a view made by expand, which is not modelled/,
  ],
  [
    'a write in one branch to what was made before',
    'y = torch.clone(x)\nif bool(torch.gt(torch.sum(x), 0)):\n  _0 = torch.add_(y, 1)\nelse:\n  pass\nreturn y',
    /writes in place, in a branch that the data decide/,
  ],
  [
    'an exception',
    'ops.prim.RaiseException("no", "E")\nreturn x',
    /raises an error for inputs of these shapes .*: no/,
  ],
];
for (const [what, forward, message] of REFUSED) {
  test(`refused: ${what}`, async (t) => {
    await assert.rejects(convertScript(t, { forward }, { inputShapes: { x: [2, 3] } }), {
      code: 'bad_model',
      message,
    });
  });
}

test('refused: a write to a weight, which would outlive the call', async (t) => {
  const weights = { w: { shape: [3], data: [1, 2, 3] } };
  const forward = 'w = self.w\nv = torch.slice(w, 0, 0, 1)\n_0 = torch.add_(v, 1)\nreturn torch.mul(x, w)';
  await assert.rejects(convertScript(t, { forward, weights }, { inputShapes: { x: [2, 3] } }), {
    code: 'bad_model',
    message: /keeps a state from one call to the next \(it writes to "w"\)/,
  });
});

test('shapes in order are those of the inputs, and as many', async (t) => {
  const script = { forward: 'return torch.mul(x, 2)' };
  const { graph } = await convertScript(t, script, { shapesInOrder: [[1, 3]] });
  assert.deepEqual(
    graph.inputs.map(({ name, shape }) => [name, shape]),
    [['x', ['N', 3]]],
  );
  await assert.rejects(
    convertScript(t, script, {
      shapesInOrder: [
        [1, 3],
        [1, 3],
      ],
    }),
    {
      code: 'bad_model',
      message: /has 1 input \(x\), but 2 shapes are given/,
    },
  );
});

test('refused: an input without a shape, with the option that gives it', async (t) => {
  await assert.rejects(convertScript(t, { forward: 'return x' }, {}), {
    code: 'bad_model',
    message:
      /shape of input "x"; give it with --input x:<shape>, like x:1,3,224,224 \(or x:int64,1,16 for whole numbers\)/,
  });
});

test('an archive of an older release divides whole numbers and fills as it did then', async (t) => {
  const forward =
    'a = torch.to(x, 3)\nb = torch.to(torch.div(a, 2), 6)\nc = torch.full([2, 2], 3)\nd = torch.div(c, 2)\nreturn torch.cat([b, torch.to(d, 6)], 0)';
  const answers = async (version: number) =>
    (await runScript(t, { forward, version }, floats([2, 2], [7, -7, 4, 5])))[0];
  assert.deepEqual(await answers(3), [3, -3, 2, 2, 1.5, 1.5, 1.5, 1.5]);
  assert.deepEqual(await answers(4), [3.5, -3.5, 2, 2.5, 1.5, 1.5, 1.5, 1.5]);
});
