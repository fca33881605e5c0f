"""ReF-ER: Remember and Forget for Experience Replay (Novati and Koumoutsakos, 2019), with V-RACER, DDPG and NAF."""
