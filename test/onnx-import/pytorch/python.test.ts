/** What TorchScript computes outside of tensors: numbers, lists, texts and dicts, as Python does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertClose } from '../support/pytorch/rows.ts';
import { convertScript, floats, runScript } from '../support/pytorch/run.ts';

const X = floats([2, 3], [3, -1, 2, 0.5, 4, -2]);

type Case = readonly [expression: string, expected: number | boolean];

const NUMBERS: readonly Case[] = [
  ['torch.add(2, 3)', 5],
  ['torch.sub(2, 3)', -1],
  ['torch.mul(2, 3.5)', 7],
  ['torch.div(7, 2)', 3.5],
  ['torch.floordiv(-7, 2)', -4],
  ['torch.floordiv(-7.5, 2)', -4],
  ['torch.remainder(-7, 3)', 2],
  ['torch.remainder(-7.5, 2)', 0.5],
  ['torch.fmod(-7.5, 2)', -1.5],
  ['torch.add(True, 1)', 2],
  ['torch.add(True, 0.5)', 1.5],
  ['torch.pow(2, 3)', 8],
  ['torch.pow(2, -1)', 0.5],
  ['torch.neg(2)', -2],
  ['torch.neg(2.5)', -2.5],
  ['torch.abs(-2)', 2],
  ['torch.abs(-2.5)', 2.5],
  ['ops.prim.max(2, 3)', 3],
  ['ops.prim.min(2, 2.5)', 2],
  ['ops.prim.max([1, 5, 3])', 5],
  ['ops.prim.min([4, 1, 3])', 1],
  ['torch.sum([4, 1, 3])', 8],
  ['torch.floor(-2.5)', -3],
  ['torch.ceil(-2.5)', -2],
  // Whole numbers, which alone are places in a list.
  ['torch.__getitem__([4, 5], torch.floor(1.5))', 5],
  ['torch.__getitem__([4, 5], torch.ceil(0.5))', 5],
  ['torch.sqrt(6.25)', 2.5],
  ['torch.log(1)', 0],
  ['torch.exp(0)', 1],
  // Half to even.
  ['torch.round(2.5)', 2],
  ['torch.round(3.5)', 4],
  ['torch.round(-0.5)', 0],
  ['torch.round(2.6)', 3],
  ['int(-2.7)', -2],
  ['int("42")', 42],
  ['int(True)', 1],
  ['float("2.5")', 2.5],
  ['float(False)', 0],
  ['bool(0.)', false],
  ['bool(-2)', true],
  ['bool("")', false],
  ['bool([0])', true],
  ['bool({})', false],
  ['torch.lt(1, 2)', true],
  ['torch.lt(2, 2)', false],
  ['torch.le(2, 2)', true],
  ['torch.le(2.5, 2)', false],
  ['torch.gt(2, 1.5)', true],
  ['torch.gt(2, 2)', false],
  ['torch.ge(2, 2)', true],
  ['torch.ge(1, 2)', false],
  ['torch.lt("a", "b")', true],
  ['torch.ge("a", "b")', false],
  ['torch.le("a", "a")', true],
  ['torch.eq(2, 2.)', true],
  ['torch.eq(2, 3)', false],
  ['torch.ne(2, 3)', true],
  ['torch.ne("a", "a")', false],
  ['torch.eq([1, 2], [1, 2])', true],
  ['torch.eq([1, 2], [1, 3])', false],
  ['torch.eq([1, 2], [1])', false],
  ['torch.eq(torch.device("cpu"), torch.device("cpu"))', true],
  ['torch.eq(None, None)', true],
  ['torch.__is__(None, None)', true],
  ['torch.__is__(x, None)', false],
  ['torch.__isnot__(x, None)', true],
  ['torch.__not__(False)', true],
  ['torch.__not__(2)', false],
  ['torch.__and__(True, False)', false],
  ['torch.__and__(True, True)', true],
  ['torch.__or__(True, False)', true],
  ['torch.__or__(False, False)', false],
  ['1 + 2 * 3', 7],
  ['-2 if 1 < 0 else 5', 5],
  ['-2 if 0 < 1 else 5', -2],
  ['False or True', true],
  ['True and False', false],
  ['not True', false],
];

const LISTS: readonly Case[] = [
  ['torch.len([1, 2, 3])', 3],
  ['torch.len("abcd")', 4],
  ['torch.len({"a": 1})', 1],
  ['torch.len(x)', 2],
  ['[4, 5, 6][-1]', 6],
  ['(4, 5, 6)[0]', 4],
  ['{"a": 7, "b": 8}["b"]', 8],
  ['torch.__getitem__([4, 5], -2)', 4],
  ['torch.len(torch.slice([1, 2, 3, 4, 5], 1, 4))', 3],
  ['torch.slice([1, 2, 3, 4, 5], 1, None, 2)[1]', 4],
  ['torch.slice([1, 2, 3, 4, 5], None, -1)[-1]', 4],
  ['torch.slice((1, 2, 3), -2)[0]', 2],
  ['torch.len(torch.slice([1, 2], 0, 9))', 2],
  ['torch.len(torch.add([1], [2, 3]))', 3],
  ['torch.add((1,), (2,))[1]', 2],
  ['torch.len(torch.mul([1, 2], 3))', 6],
  ['torch.mul([1, 2], 2)[2]', 1],
  ['torch.len(torch.mul([1], -1))', 0],
  ['torch.eq(torch.add("a", "b"), "ab")', true],
  ['torch.eq("abc"[-1], "c")', true],
  ['torch.all([True, False])', false],
  ['torch.all([True, True])', true],
  ['torch.any([False, True])', true],
  ['torch.any([False, False])', false],
  ['torch.__contains__([1, 2], 2)', true],
  ['torch.__contains__([1, 2], 3)', false],
  ['torch.__contains__({"a": 1}, "a")', true],
  ['torch.__contains__({"a": 1}, "b")', false],
  ['torch.values({"a": 3})[0]', 3],
  ['torch.eq(torch.keys({"a": 3})[0], "a")', true],
  ['torch.items({"a": 3})[0][1]', 3],
  ['torch.get({"a": 3}, "a", 4)', 3],
  ['torch.get({"a": 3}, "b", 4)', 4],
  ['torch.list("ab")[1] == "b"', true],
  ['torch.copy([1, 2])[1]', 2],
  ['torch.__range_length(1, 8, 3)', 3],
  ['torch.__range_length(8, 1, -3)', 3],
  ['torch.__range_length(8, 1, 3)', 0],
  ['torch.__derive_index(2, 5, 3)', 11],
  ['torch.eq(torch.format("{} of {}", 1, [2.5, None]), "1 of [2.5, None]")', true],
  ['torch.eq(torch.str(True), "true")', true],
  ['torch.dim(x)', 2],
  ['torch.numel(x)', 6],
  ['torch.size(x, -1)', 3],
  ['torch.size(x)[1]', 3],
  ['ops.prim.dtype(x)', 6],
  ['ops.prim.dtype(torch.long(x))', 4],
  ['torch.is_floating_point(x)', true],
  ['torch.is_floating_point(torch.long(x))', false],
  ['ops.prim.is_cuda(x)', false],
  ['torch.requires_grad(x)', false],
  ['torch.tolist(torch.tensor([4, 5]))[1]', 5],
  ['torch.item(torch.tensor(2.5))', 2.5],
  ['torch.item(torch.tensor(True))', true],
  ['torch.IntImplicit(torch.tensor(7))', 7],
  ['torch.unchecked_unwrap_optional(3)', 3],
  ['int(ops.prim.NumToTensor(5))', 5],
  ['torch.mul(ops.prim.NumToTensor(5), ops.prim.NumToTensor(3))', 15],
  ['torch.sub(ops.prim.NumToTensor(5), 7)', -2],
  ['torch.div(ops.prim.NumToTensor(7), 2, rounding_mode="floor")', 3],
];

/** Each as `full([1], n)`, or as the choice that a known bool makes. */
for (const [group, cases] of Object.entries({ numbers: NUMBERS, 'lists and facts': LISTS }))
  test(`${group} are Python's`, async (t) => {
    const lines = cases.map(([expression, expected], i) =>
      typeof expected === 'boolean'
        ? `if ${expression}:\n  a${i} = 1\nelse:\n  a${i} = 0`
        : `a${i} = ${expression}`,
    );
    const all = cases.map((_, i) => `torch.full([1], a${i}, dtype=7)`).join(', ');
    const results = await runScript(t, { forward: `${lines.join('\n')}\nreturn (${all})` }, X);
    for (const [i, [expression, expected]] of cases.entries())
      assertClose(results[i], [Number(expected)], expression);
  });

test('lists and dicts change in place', async (t) => {
  const forward = `l = [1, 2, 3]
_0 = torch.append(l, 4)
_1 = torch.insert(l, 1, 9)
_2 = torch.extend(l, [5, 6])
a = torch.pop(l)
b = torch.pop(l, 0)
_3 = torch._set_item(l, -1, 7)
d = {"k": 1}
_4 = torch._set_item(d, "k", 8)
m = torch.copy(l)
_5 = torch.reverse(l)
_6 = torch.clear(m)
return torch.tensor([a, b, d["k"], torch.len(m), l[0], l[1], l[2], l[3], l[4]])`;
  const [result] = await runScript(t, { forward }, X);
  assert.deepEqual(result, [6, 1, 8, 0, 7, 4, 3, 2, 9]);
});

test('numbers that the data decide are computed by the run', async (t) => {
  const forward = `n = int(torch.sum(torch.long(x)))
f = float(torch.sum(x))
b = bool(torch.gt(torch.sum(x), 0))
all = [torch.add(n, 2), torch.sub(10, n), torch.mul(n, n), ops.prim.max(n, 3), ops.prim.min(n, 3), torch.remainder(torch.neg(n), 4)]
reals = [torch.add(f, n), torch.div(f, 2), torch.div(n, 4.), torch.remainder(f, 4.)]
tests = [torch.lt(n, 6), torch.le(n, 6), torch.gt(f, 6.5), torch.ge(f, 6.5), torch.eq(n, 6), torch.ne(n, 6), torch.eq(f, 6.5), torch.__and__(b, True), torch.__or__(b, False), torch.__not__(b)]
return (torch.tensor(all), torch.tensor(reals), torch.tensor(tests, dtype=11))`;
  const [ints, reals, tests] = await runScript(t, { forward }, X);
  assert.deepEqual(ints, [8, 4, 36, 6, 3, 2]);
  assertClose(reals, [12.5, 3.25, 1.5, 2.5], 'reals');
  assert.deepEqual(tests, [0, 1, 0, 1, 1, 0, 1, 1, 1, 0]);
});

test('sizes that are free stay so', async (t) => {
  const forward = `n = torch.size(x, 0)
if torch.ge(n, 1):
  y = torch.view(x, [torch.mul(n, 3)])
else:
  y = x
if torch.lt(n, 1):
  z = torch.neg(y)
else:
  z = y
return torch.add(z, torch.arange(torch.mul(n, 3)))`;
  const { graph } = await convertScript(t, { forward }, { inputShapes: { x: [1, 3] } });
  assert.deepEqual(graph.outputs[0]?.value.shape, ['3*N']);
  const [result] = await runScript(t, { forward }, X, [1, 3]);
  assert.deepEqual(result, [3, 0, 4, 3.5, 8, 3]);
});

const REFUSED: readonly (readonly [expression: string, message: RegExp])[] = [
  ['[1, 2][2]', /index 2 is outside of 2 items/],
  ['[1, 2][-3]', /index -3 is outside of 2 items/],
  ['{"a": 1}["b"]', /has no key b/],
  ['(1)[0]', /cannot be indexed: an int/],
  ['torch.slice([1, 2], None, None, -1)', /has a negative step/],
  ['ops.prim.max(annotate(List[int], []))', /max of an empty list/],
  ['torch.mul(9007199254740991, 2)', /beyond 2\^53/],
  ['torch.floordiv(int(torch.sum(x)), 2)', /floordiv of a number that the data decide/],
  ['torch.div(int(torch.sum(x)), 2)', /div of a number that the data decide/],
  ['torch.len(3)', /has no length: an int/],
  ['torch.tolist(x)', /makes a list of what the data decide/],
  ["torch.all(['a'])", /needs a known bool, got a text/],
  ['torch.keys([1])', /is no dict: a list/],
  ['torch.list(1)', /is no list: an int/],
  ['torch.dim(1)', /needs a tensor, got an int/],
  ['ops.prim.type(1)', /what is no device/],
];
for (const [expression, message] of REFUSED)
  test(`refused: ${expression}`, async (t) => {
    const forward = `a = ${expression}\nreturn x`;
    await assert.rejects(runScript(t, { forward }, X), { code: 'bad_model', message });
  });
