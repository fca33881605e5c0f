// Stand-in for HalfCheetah: states and rewards are random numbers, an episode has 1000 steps.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "smarties.h"

constexpr int STATES = 17, ACTIONS = 6, EPISODE = 1000, PRINTED = 50;

void play(smarties::Communicator* const comm, int, char**) {
  comm->setStateActionDims(STATES, ACTIONS);
  comm->setActionScales(std::vector<double>(ACTIONS, 1.0), std::vector<double>(ACTIONS, -1.0), false);
  const char* const first = std::getenv("FIRST_STEPS");
  const long first_steps = first ? std::atol(first) : 0;
  std::normal_distribution<double> normal;
  const auto state = [&] {
    std::vector<double> values(STATES);
    for (double& value : values) value = normal(comm->getPRNG());
    return values;
  };
  long steps = 0;
  while (true) {
    comm->sendInitState(state());
    for (int step = 1; step <= EPISODE; ++step) {
      comm->recvAction();
      if (comm->terminateTraining()) return;
      if (++steps > first_steps && steps % PRINTED == 0) {
        std::printf("Steps %ld\n", steps);
        std::fflush(stdout);
      }
      if (step < EPISODE) comm->sendState(state(), normal(comm->getPRNG()));
      else comm->sendLastState(state(), normal(comm->getPRNG()));
    }
  }
}

int main(int argc, char** argv) {
  smarties::Engine engine(argc, argv);
  if (engine.parse()) return 1;
  engine.run(play);
  return 0;
}
