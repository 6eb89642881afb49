/* Tests how the page keeps its newest text in view, on a fake scrolling box without a browser, so that the test
 * decides the order of events. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Follow } from '../../web/chat/follow.js';

/** Returns a fake scroll box, 100 pixels high, that clamps scrollTop like a browser. Its scrolled() fires the scroll
 * event. */
function makeBox() {
  let top = 0;
  let height = 500;
  let room = 100;
  let listener = () => {};
  const clamp = (/** @type {number} */ value) => Math.max(0, Math.min(value, height - room));
  return {
    get scrollTop() {
      return (top = clamp(top));
    },
    set scrollTop(value) {
      top = clamp(value);
    },
    get scrollHeight() {
      return height;
    },
    get clientHeight() {
      return room;
    },
    addEventListener: (/** @type {string} */ type, /** @type {() => void} */ heard) => {
      if (type === 'scroll') listener = heard;
    },
    focus() {},
    grow: (/** @type {number} */ by) => {
      height += by;
    },
    make: (/** @type {number} */ wide) => {
      room = wide;
    },
    scrolled: () => listener(),
    end: () => height - room,
  };
}

function following() {
  globalThis.ResizeObserver = /** @type {any} */ (
    class {
      observe() {}
    }
  );
  const box = makeBox();
  const button = {
    hidden: true,
    click() {},
    addEventListener(/** @type {unknown} */ _, /** @type {() => void} */ click) {
      this.click = click;
    },
  };
  const follow = new Follow(/** @type {any} */ (box), /** @type {any} */ (button));
  follow.toEnd();
  return { box, button, follow };
}

test('the view follows the text; scrolling up stops it, and the button resumes it', () => {
  const { box, button, follow } = following();
  box.grow(30);
  follow.update();
  assert.equal(box.scrollTop, box.end());
  box.scrollTop -= 12;
  box.scrolled();
  const place = box.scrollTop;
  box.grow(30);
  follow.update();
  assert.deepEqual([box.scrollTop, button.hidden], [place, false]);
  button.click();
  assert.deepEqual([box.scrollTop, button.hidden], [box.end(), true]);
});

test('after the reader scrolls up, text that arrives before the scroll event does not scroll back', () => {
  const { box, button, follow } = following();
  box.scrollTop -= 12;
  const place = box.scrollTop;
  box.grow(30);
  follow.update();
  assert.deepEqual([box.scrollTop, button.hidden], [place, false]);
  box.scrolled();
  follow.update();
  assert.equal(box.scrollTop, place);
});

test('scrolling by the browser keeps following: shorter text, a resized box', () => {
  const { box, button, follow } = following();
  box.grow(-40);
  follow.update();
  box.grow(60);
  follow.update();
  assert.equal(box.scrollTop, box.end());
  box.make(150);
  assert.equal(box.scrollTop, box.end()); // Reading scrollTop forces a layout.
  box.make(100);
  follow.keep();
  assert.equal(box.scrollTop, box.end());
  box.make(150);
  box.grow(20);
  follow.update();
  assert.deepEqual([box.scrollTop, button.hidden], [box.end(), true]);
});

test('toStart() shows content from its beginning, without the button', () => {
  const { box, button, follow } = following();
  follow.toStart();
  assert.deepEqual([box.scrollTop, button.hidden], [0, true]);
  box.scrollTop = 12;
  box.scrolled();
  assert.equal(button.hidden, true);
  follow.toEnd();
  box.scrollTop -= 60;
  box.scrolled();
  assert.equal(button.hidden, false);
});
