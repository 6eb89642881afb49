/* Tests how text is assembled from tokens: whole characters and stop sequences. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TextAssembler } from '../../js/engine/text.js';

/** @param {number[][]} groups @param {string[]} [stops] */
function assemble(groups, stops = []) {
  const assembler = new TextAssembler(stops);
  const pieces = [];
  for (const group of groups) {
    pieces.push(assembler.add(Uint8Array.from(group)));
    if (assembler.stopped !== null) return { pieces, assembler };
  }
  pieces.push(assembler.end());
  return { pieces, assembler };
}

const bytes = (/** @type {string} */ text) => [...Buffer.from(text)];

test('no character is shown before it is complete', () => {
  const text = 'aé€🎉👩‍👩‍👧z\ufeff';
  for (const size of [1, 2, 3, 5]) {
    const all = [...bytes(text)];
    const groups = [];
    for (let i = 0; i < all.length; i += size) groups.push(all.slice(i, i + size));
    const { pieces } = assemble(groups);
    assert.equal(pieces.join(''), text);
    for (const piece of pieces) {
      assert.ok(!piece.includes('\ufffd'), `piece ${JSON.stringify(piece)} at size ${size}`);
      assert.ok(Object(piece).isWellFormed?.() ?? true);
    }
  }
});

test('an incomplete character at the end is dropped and reported; invalid bytes inside are replaced', () => {
  const { pieces, assembler } = assemble([bytes('ok'), [0xf0, 0x9f]]);
  assert.equal(pieces.join(''), 'ok');
  assert.equal(assembler.cut, 2);
  const bad = assemble([bytes('a'), [0xff], bytes('b')]);
  assert.equal(bad.pieces.join(''), 'a\ufffdb');
  assert.equal(bad.assembler.cut, 0);
});

test('stop sequences are cut off wherever the pieces split them', () => {
  const text = 'one two\nUser: three';
  for (const stop of ['\nUser:', 'two\nU', 'o', 'three', 'e two\nUser: thre']) {
    for (let size = 1; size <= text.length; size++) {
      const groups = [];
      for (let i = 0; i < text.length; i += size) groups.push(bytes(text.slice(i, i + size)));
      const { pieces, assembler } = assemble(groups, ['never', stop]);
      assert.equal(pieces.join(''), text.slice(0, text.indexOf(stop)), `stop ${stop}, pieces of ${size}`);
      assert.equal(assembler.stopped, stop);
      assert.equal(assembler.text, pieces.join(''));
    }
  }
});

test('the earliest stop sequence wins, and the beginning of one that does not come is shown in the end', () => {
  const { pieces, assembler } = assemble([bytes('xyab')], ['ab', 'y']);
  assert.equal(pieces.join(''), 'x');
  assert.equal(assembler.stopped, 'y');
  const none = assemble([bytes('hello <en'), bytes('d')], ['<end>']);
  assert.deepEqual(none.pieces, ['hello ', '', '<end']);
  const resumed = assemble([bytes('<en'), bytes('d of it')], ['<end>']);
  assert.deepEqual(resumed.pieces, ['', '<end of it', '']);
});
